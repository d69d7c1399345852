//! The cost of counting a decision: with and without, and next to the clock that it reads.
//!
//! `tidegate/pass` less `floor/clock` is the counting alone, for a caller that has read the time already. A gate counts
//! so, because it tells its observers the time of a decision.

use super::{Candidate, sound};
use crate::cases::{Case, Rule, Shape};
use ::tidegate::{
    AlgorithmKind, Answer, Clock, Descriptor, Gate, Limiter, Policy, Request, RuleSpec,
    RuleStatistics, Setup, Spec, Statistics, SystemClock,
};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// The clock, the count, the decision, and both; a guard that also times its request; a gate alone, and with the
/// values of each of its rules.
pub fn offers(case: &Case) -> Vec<Candidate> {
    if case.shape != Shape::Counted {
        return Vec::new();
    }
    let rule = case.rule;
    let limiter = move || sound(Limiter::new(spec(rule)));
    let with_statistics = move || (limiter(), Statistics::new());
    vec![
        Candidate::asked("floor/clock", SystemClock::new, |clock, _| {
            black_box(clock.now());
            true
        }),
        Candidate::asked("tidegate/pass", Statistics::new, |statistics, _| {
            statistics.pass(1);
            true
        }),
        Candidate::asked("tidegate/entry", Statistics::new, |statistics, _| {
            drop(statistics.entry());
            true
        }),
        Candidate::asked("tidegate/admits", limiter, |limiter, _| limiter.admits(1)),
        Candidate::asked("tidegate/admits, pass", with_statistics, |(limiter, statistics), _| {
            let admitted = limiter.admits(1);
            if admitted {
                statistics.pass(1);
            } else {
                statistics.block(1);
            }
            admitted
        }),
        Candidate::asked("tidegate/admits_counted", with_statistics, |(limiter, statistics), _| {
            limiter.admits_counted(1, statistics)
        }),
        gate("tidegate/Gate", move || Setup::new(policy(rule))),
        gate("tidegate/Gate, RuleStatistics", move || {
            Setup::new(policy(rule)).observer(Arc::new(RuleStatistics::new()))
        }),
        gate("tidegate/Gate, no-op observer", move || {
            let nothing = |_: &Request<'_>, answer: &Answer<'_>| _ = black_box(answer.at());
            Setup::new(policy(rule)).observer(Arc::new(nothing))
        }),
    ]
}

fn gate(name: &'static str, setup: impl Fn() -> Setup + 'static) -> Candidate {
    Candidate::asked(
        name,
        move || Gate::new(setup()),
        |gate, _| gate.check(Request::new("default", &[Descriptor::new(&[])])).is_allowed(),
    )
}

fn spec(rule: Rule) -> Spec {
    let limit = rule.capacity.min(::tidegate::MAX_LIMIT);
    Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(366 * 86_400))
}

fn policy(rule: Rule) -> Policy {
    sound(Policy::new(vec![RuleSpec::new("all", spec(rule))]))
}
