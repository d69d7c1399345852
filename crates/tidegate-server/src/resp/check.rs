//! `TG.CHECK` and `TG.PEEK`: the configured rules decide.

use tidegate::{Answer, Micros};

use super::args::Args;
use super::question::{Mistake, Question};
use super::reply::Reply;
use super::session::{Outcome, Session};
use super::shared::Shared;
use super::usage::wrong_number;

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
    let request = question.request(&descriptors);
    let answer = match kind {
        Kind::Check => shared.limiters.check(&request).await,
        Kind::Peek => shared.limiters.peek(&request).await,
    };
    tell(&answer, reply);
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
    reply.map(11);
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
        ("overflow", answer.is_overflow()),
        ("overloaded", answer.is_overloaded()),
    ] {
        reply.text(name);
        reply.boolean(is);
    }
}
