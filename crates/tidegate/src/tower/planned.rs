//! The way to limiters by plan: each caller is held to the figures of their own plan.

use std::future::ready;
use std::sync::Arc;

use tidegate_core::{Micros, Timestamp};

use super::charging::Took;
use super::door::{Asked, Door, Later, Ruling};
use super::entries::Question;
use super::fields::Fields;
use crate::answer::{Answer, Descriptors, Matched, Standing};
use crate::clock::Clock;
use crate::limiter::{PlannedLimiter, Under};
use crate::request::Request;
use crate::rules::PolicyRule;
use crate::store::memory::{Done, Step};

/// What the figures are told under.
const NAME: &str = "plan";

/// Decides at once, by the plan of whom the request comes from.
pub(super) struct Planned<C>(pub(super) Arc<PlannedLimiter<C>>);

impl<C: Clock> Planned<C> {
    /// One step with the limiter of whoever asks, at the cost of the request; `told` is handed the answer.
    fn step<T>(&self, request: &Request<'_>, step: Step, told: impl FnOnce(&Answer<'_>) -> T) -> T {
        let Some((key, cost)) = who(request) else { return told(&nothing(self.0.clock.now())) };
        // Of no cost where it is looked at afterwards, when nobody asks whether it might come again.
        let cost = if step == Step::Peek { 0 } else { cost };
        self.0.by_plan(key.as_bytes(), |under, key| {
            let done = under.done(under.print(key), cost, step);
            told_by(&under, cost, &done, told)
        })
    }
}

/// Whom a request comes from, and what it costs.
fn who<'a>(request: &Request<'a>) -> Option<(&'a str, u64)> {
    let descriptor = request.descriptors().first()?;
    let (_, value) = descriptor.entries().first()?;
    Some((value, descriptor.units()))
}

/// Hands `told` the answer of a rule that says what the plan says.
fn told_by<C, T>(
    under: &Under<'_, C>,
    cost: u64,
    done: &Done,
    told: impl FnOnce(&Answer<'_>) -> T,
) -> T {
    let rule = PolicyRule::of_figures(NAME, under.rule);
    let limited = done.decisions.first().filter(|_| !under.rule.is_unlimited());
    let matched = limited.map(|decided| Matched {
        rule: &rule,
        variant: 0,
        cost,
        by: Descriptors::one(0),
        decision: decided.decision,
        overloaded: decided.overloaded,
        elsewhere: decided.elsewhere,
    });
    let (allowed, at) = (done.allowed, done.at);
    let (standing, matched) = (Standing::Exact, matched.into_iter().collect());
    told(&Answer { allowed, at, standing, repeated: false, matched })
}

/// The answer to a request that comes from nobody: it meets no limiter.
fn nothing(at: Timestamp) -> Answer<'static> {
    let (standing, matched) = (Standing::Exact, Default::default());
    Answer { allowed: true, at, standing, repeated: false, matched }
}

impl<C: Clock + 'static> Door for Planned<C> {
    fn ask(self: Arc<Self>, question: Question) -> Asked {
        // Not before it is polled: a request that is dropped before costs nothing.
        Box::pin(async move {
            question.ask(|request| self.step(request, Step::Ask, |answer| Ruling::from(answer)))
        })
    }

    fn refund(&self, question: &Question) {
        question.ask(|request| self.step(request, Step::Refund, |_| ()));
    }

    fn release(&self, question: &Question, took: &Took) -> Fields {
        question.ask(|request| {
            if took.anything() {
                self.step(request, Step::Settle { actual: 0 }, |_| ());
            }
            self.step(request, Step::Peek, |answer| Fields::from(answer))
        })
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    fn pause(self: Arc<Self>, _: Micros) -> Later<()> {
        Box::pin(ready(()))
    }
}
