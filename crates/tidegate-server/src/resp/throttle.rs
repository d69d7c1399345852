//! `CL.THROTTLE key max_burst count period [quantity]`: a limit that the call carries, as redis-cell has it.
//!
//! Its keys are a namespace of their own, beside every configured rule. A key that is asked under other
//! figures follows them: what was used stays used.

use tidegate::{
    Algorithm, Decision, MAX_LIMIT, MAX_WINDOW, Micros, PlannedLimiter, Rule, RuleErrors, Spec,
};

use super::args::{Args, integer};
use super::reply::Reply;
use super::session::{Outcome, Session};
use super::shared::Shared;
use crate::limiters::Limiters;

/// What the keys of all calls are kept apart by in a store.
const NAMESPACE: &str = "cl.throttle";
const MICROS: u64 = 1_000_000;

/// Where the limiters of CL.THROTTLE live: beside the others.
#[derive(Debug)]
pub(super) enum Throttle {
    Here(Box<PlannedLimiter>),
    InStore,
}

impl Throttle {
    /// # Errors
    /// None: the plan of keys that bring none, which are never asked, is sound.
    pub(super) fn beside(limiters: &Limiters) -> Result<Self, RuleErrors> {
        match limiters {
            Limiters::Here(_) => {
                let usual = Spec::new(Algorithm::TokenBucket, 1, Micros::from_secs(1));
                Ok(Self::Here(Box::new(PlannedLimiter::new(usual)?)))
            }
            Limiters::Shared(_) => Ok(Self::InStore),
        }
    }
}

/// What a call says of its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Figures {
    max_burst: i64,
    count: i64,
    period: i64,
}

/// The limit that a connection asked by last: most ask by one.
#[derive(Debug, Default)]
pub(super) struct Plans(Option<(Figures, Rule)>);

impl Plans {
    fn rule(&mut self, figures: Figures) -> Result<&Rule, String> {
        if self.0.as_ref().is_none_or(|(last, _)| *last != figures) {
            self.0 = Some((figures, figures.rule()?));
        }
        self.0.as_ref().map(|(_, rule)| rule).ok_or_else(String::new)
    }
}

/// A call, understood.
struct Call<'a> {
    key: &'a [u8],
    figures: Figures,
    cost: u64,
}

/// Answers at once, unless the store has to be asked.
pub(super) fn answer(session: &mut Session, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let decided = match &session.shared.throttle {
        None => Err(SWITCHED_OFF.to_owned()),
        Some(Throttle::InStore) => return Outcome::Later,
        Some(Throttle::Here(limiter)) => Call::read(args).and_then(|call| {
            let rule = session.plans.rule(call.figures)?;
            Ok(limiter.under(rule).check(call.key, call.cost))
        }),
    };
    tell(decided, reply);
    Outcome::Answered
}

/// Answers when the store does.
pub(super) async fn later(shared: &Shared, args: &Args<'_>, reply: &mut Reply<'_>) {
    tell(in_store(shared, args).await, reply);
}

async fn in_store(shared: &Shared, args: &Args<'_>) -> Result<Decision, String> {
    let Limiters::Shared(gate) = &*shared.limiters else { return Err(SWITCHED_OFF.to_owned()) };
    let call = Call::read(args)?;
    let rule = call.figures.rule()?;
    let decided = gate.check_under(NAMESPACE, call.key, &rule, call.cost).await;
    decided.map_err(|error| error.to_string())
}

const SWITCHED_OFF: &str =
    "CL.THROTTLE is switched off here: ask TG.CHECK, which goes by the rules";

impl<'a> Call<'a> {
    /// Its mistakes are told in the words of redis-cell, and in its order.
    fn read(args: &Args<'a>) -> Result<Self, String> {
        if args.len() != 5 && args.len() != 6 {
            return Err("Usage: cl.throttle <key> <max_burst> <count per period> <period> \
                        [<quantity>]"
                .to_owned());
        }
        let figure = |number: usize| parsed(args.word(number));
        let figures = Figures { max_burst: figure(2)?, count: figure(3)?, period: figure(4)? };
        let quantity = if args.len() == 6 { figure(5)? } else { 1 };
        let cost = within("quantity", quantity, 0, i64::MAX)?;
        Ok(Self { key: args.word(1), figures, cost })
    }
}

impl Figures {
    fn rule(self) -> Result<Rule, String> {
        if self.count == 0 || self.period == 0 {
            return Err("Zero rates are not supported".to_owned());
        }
        let most = MAX_LIMIT.cast_signed();
        let max_burst = within("max_burst", self.max_burst, 0, most - 1)?;
        let count = within("count per period", self.count, 1, most)?;
        let seconds = (MAX_WINDOW.as_micros() / MICROS).cast_signed();
        let period = within("period", self.period, 1, seconds)?;
        let mut spec = Spec::new(Algorithm::TokenBucket, count, Micros::from_secs(period));
        spec.capacity = Some(max_burst + 1);
        Rule::new(spec).map_err(|mistakes| mistakes.to_string())
    }
}

fn parsed(word: &[u8]) -> Result<i64, String> {
    integer(word).ok_or_else(|| {
        let shown = word.get(..64).unwrap_or(word);
        format!("Couldn't parse as integer: {}", String::from_utf8_lossy(shown))
    })
}

fn within(what: &str, given: i64, least: i64, most: i64) -> Result<u64, String> {
    let number = u64::try_from(given).ok().filter(|_| (least..=most).contains(&given));
    number.ok_or_else(|| format!("{what} is {given}: expected {least} to {most}"))
}

/// Five integers: whether it is limited, the limit, what remains, seconds until the same quantity fits (-1
/// when it did, or never will), seconds until the limiter is as good as new. Seconds are rounded up.
fn tell(decided: Result<Decision, String>, reply: &mut Reply<'_>) {
    let decision = match decided {
        Ok(decision) => decision,
        Err(told) => return reply.error(&format!("Cell error: Store error: {told}")),
    };
    let wait = decision.retry_after().filter(|_| !decision.is_allowed());
    reply.array(5);
    reply.integer(u8::from(!decision.is_allowed()));
    reply.integer(decision.limit);
    reply.integer(decision.remaining);
    reply.integer(wait.map_or(-1, |wait| seconds(wait).cast_signed()));
    reply.integer(seconds(decision.reset_after));
}

/// Rounded up, so that nobody comes back too early.
const fn seconds(wait: Micros) -> u64 {
    wait.as_micros().div_ceil(MICROS)
}
