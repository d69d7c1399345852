//! `TG.CHECK domain [COST n] [ID id] [name value ...]` and `TG.PEEK`: the configured rules decide.

use smallvec::SmallVec;
use tidegate::{Answer, Descriptor, MAX_COST, Micros, Request};

use super::args::{Args, integer};
use super::reply::Reply;
use super::session::{Outcome, Session, wrong_number};
use super::shared::Shared;

/// Entries that take no memory of their own.
const AT_HAND: usize = 8;
/// Most entries, as over HTTP.
const MOST_ENTRIES: usize = 64;

/// Whether the cost is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Check,
    Peek,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Check => "tg.check",
            Self::Peek => "tg.peek",
        }
    }
}

/// What is asked, understood.
struct Question<'a> {
    domain: &'a str,
    cost: u64,
    entries: SmallVec<[(&'a str, &'a str); AT_HAND]>,
}

/// Why a question can not be understood.
enum Mistake {
    Arity,
    Told(String),
}

/// Answers at once, unless that has to wait.
pub(super) fn answer(
    session: &Session,
    kind: Kind,
    args: &Args<'_>,
    reply: &mut Reply<'_>,
) -> Outcome {
    let question = match Question::read(args) {
        Ok(question) => question,
        Err(mistake) => {
            mistake.tell(kind, reply);
            return Outcome::Answered;
        }
    };
    let limiters = &session.shared.limiters;
    let told = question.ask(|request| {
        let answer = match kind {
            Kind::Check => limiters.check_at_once(request),
            Kind::Peek => limiters.peek_at_once(request),
        };
        answer.map(|answer| tell(&answer, reply))
    });
    if told.is_some() { Outcome::Answered } else { Outcome::Later }
}

/// Answers when the limiters do.
pub(super) async fn later(shared: &Shared, kind: Kind, args: &Args<'_>, reply: &mut Reply<'_>) {
    let question = match Question::read(args) {
        Ok(question) => question,
        Err(mistake) => return mistake.tell(kind, reply),
    };
    let descriptors = [question.descriptor()];
    let request = Request::new(question.domain, &descriptors);
    let answer = match kind {
        Kind::Check => shared.limiters.check(&request).await,
        Kind::Peek => shared.limiters.peek(&request).await,
    };
    tell(&answer, reply);
}

impl<'a> Question<'a> {
    fn read(args: &Args<'a>) -> Result<Self, Mistake> {
        let domain = text(args.word(1), "the domain")?;
        if domain.is_empty() {
            return Err(Mistake::Told(
                "the domain is empty: expected a name such as default".to_owned(),
            ));
        }
        let (cost, rest) = cost(args.skip(2))?;
        if rest.len() % 2 == 1 {
            return Err(Mistake::Arity);
        }
        let entries = rest.len() / 2;
        if entries > MOST_ENTRIES {
            return Err(Mistake::Told(format!(
                "there are {entries} entries: expected at most {MOST_ENTRIES}"
            )));
        }
        let mut question = Self { domain, cost, entries: SmallVec::new() };
        for number in (0..rest.len()).step_by(2) {
            question.add(rest.word(number), rest.word(number + 1))?;
        }
        Ok(question)
    }

    fn add(&mut self, name: &'a [u8], value: &'a [u8]) -> Result<(), Mistake> {
        let name = text(name, "the name of an entry")?;
        if self.entries.iter().any(|(earlier, _)| *earlier == name) {
            return Err(Mistake::Told(format!("entry `{name}` is given twice")));
        }
        self.entries.push((name, text(value, "the value of an entry")?));
        Ok(())
    }

    fn descriptor(&self) -> Descriptor<'_> {
        Descriptor::new(&self.entries).cost(self.cost)
    }

    fn ask<T>(&self, to: impl FnOnce(&Request<'_>) -> T) -> T {
        to(&Request::new(self.domain, &[self.descriptor()]))
    }
}

/// The cost, and the words behind it. COST is read once: behind it, `cost` is the name of an entry.
fn cost(args: Args<'_>) -> Result<(u64, Args<'_>), Mistake> {
    if !args.word(0).eq_ignore_ascii_case(b"cost") {
        return Ok((1, args));
    }
    let word = args.word(1);
    let cost = integer(word).and_then(|cost| u64::try_from(cost).ok());
    match cost.filter(|cost| *cost <= MAX_COST) {
        Some(cost) => Ok((cost, args.skip(2))),
        None => Err(Mistake::Told(format!(
            "COST is {:?}: expected a whole number from 0 to {MAX_COST}",
            String::from_utf8_lossy(word.get(..32).unwrap_or(word))
        ))),
    }
}

fn text<'a>(word: &'a [u8], what: &str) -> Result<&'a str, Mistake> {
    std::str::from_utf8(word).map_err(|_| Mistake::Told(format!("{what} is not UTF-8")))
}

impl Mistake {
    #[cold]
    fn tell(&self, kind: Kind, reply: &mut Reply<'_>) {
        match self {
            Self::Arity => wrong_number(kind.name(), reply),
            Self::Told(told) => reply.error(&format!("ERR {told}")),
        }
    }
}

/// The figures of an answer under the names they have over HTTP.
fn tell(answer: &Answer<'_>, reply: &mut Reply<'_>) {
    let reported = answer.reported();
    let figure = |pick: fn(&tidegate::Decision) -> u64| reported.map(|rule| pick(rule.decision()));
    reply.map(10);
    reply.text("allowed");
    reply.boolean(answer.is_allowed());
    reply.text("rule");
    match reported {
        Some(matched) => reply.text(matched.rule().name()),
        None => reply.null(),
    }
    reply.field("limit", figure(|decision| decision.limit));
    reply.field("remaining", figure(|decision| decision.remaining));
    reply.field("retry_after_us", answer.retry_after().map(Micros::as_micros));
    reply.field("reset_after_us", Some(answer.reset_after().as_micros()));
    reply.field("delay_us", Some(answer.delay().as_micros()));
    for (name, is) in [
        ("unlimited", answer.is_unlimited()),
        ("degraded", answer.is_degraded()),
        ("overloaded", answer.is_overloaded()),
    ] {
        reply.text(name);
        reply.boolean(is);
    }
}
