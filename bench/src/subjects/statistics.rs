//! The cost of counting a decision: with and without, and next to the clock that it reads.
//!
//! `tidegate/pass` less `floor/clock` is the counting alone, for a caller that has read the time already. A gate counts
//! so, because it tells its observers the time of a decision.

use super::{Candidate, Subject};
use crate::cases::{Case, Rule, Shape};
use crate::workload::Ask;
use ::tidegate::{
    AlgorithmKind, Answer, Clock, Descriptor, Gate, Limiter, Policy, Request, RuleSpec,
    RuleStatistics, Setup, Spec, Statistics, SystemClock,
};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// The clock, the count, the decision, and both; a guard that also times its request; a gate alone, and with the
/// figures of each of its rules.
pub fn offers(case: &Case) -> Vec<Candidate> {
    let rule = case.rule;
    match case.shape {
        Shape::Counted => vec![
            Candidate::new("floor/clock", rule, |_| ReadClock(SystemClock::new())),
            Candidate::new("tidegate/pass", rule, |_| Pass(Statistics::new())),
            Candidate::new("tidegate/entry", rule, |_| Guard(Statistics::new())),
            Candidate::new("tidegate/admits", rule, |rule| Admits(limiter(rule))),
            Candidate::new("tidegate/admits, pass", rule, |rule| {
                AdmitsAndPass(limiter(rule), Statistics::new())
            }),
            Candidate::new("tidegate/admits_counted", rule, |rule| {
                AdmitsCounted(limiter(rule), Statistics::new())
            }),
            Candidate::new("tidegate/Gate", rule, |rule| OfGate(Gate::new(policy(rule)))),
            Candidate::new("tidegate/Gate, RuleStatistics", rule, |rule| {
                OfGate(Gate::new(
                    Setup::new(policy(rule)).observer(Arc::new(RuleStatistics::new())),
                ))
            }),
            Candidate::new("tidegate/Gate, no-op observer", rule, |rule| {
                let nothing = |_: &Request<'_>, answer: &Answer<'_>| _ = black_box(answer.at());
                OfGate(Gate::new(Setup::new(policy(rule)).observer(Arc::new(nothing))))
            }),
        ],
        _ => Vec::new(),
    }
}

fn spec(rule: Rule) -> Spec {
    let limit = rule.capacity.min(::tidegate::MAX_LIMIT);
    Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(366 * 86_400))
}

#[expect(clippy::expect_used, reason = "a rule of this file that is not sound is to be mended")]
fn limiter(rule: Rule) -> Limiter {
    Limiter::new(spec(rule)).expect("a sound rule")
}

#[expect(clippy::expect_used, reason = "a rule of this file that is not sound is to be mended")]
fn policy(rule: Rule) -> Policy {
    Policy::new(vec![RuleSpec::new("all", spec(rule))]).expect("a sound rule")
}

struct ReadClock(SystemClock);

impl Subject for ReadClock {
    fn decide(&self, _: &Ask) -> bool {
        black_box(self.0.now());
        true
    }
}

struct Pass(Statistics);

impl Subject for Pass {
    fn decide(&self, _: &Ask) -> bool {
        self.0.pass(1);
        true
    }
}

struct Guard(Statistics);

impl Subject for Guard {
    fn decide(&self, _: &Ask) -> bool {
        drop(self.0.entry());
        true
    }
}

struct Admits(Limiter);

impl Subject for Admits {
    fn decide(&self, _: &Ask) -> bool {
        self.0.admits(1)
    }
}

struct OfGate(Gate);

impl Subject for OfGate {
    fn decide(&self, _: &Ask) -> bool {
        let descriptors = [Descriptor::new(&[])];
        self.0.check(Request::new("default", &descriptors)).is_allowed()
    }
}

struct AdmitsAndPass(Limiter, Statistics);

impl Subject for AdmitsAndPass {
    fn decide(&self, _: &Ask) -> bool {
        let admitted = self.0.admits(1);
        match admitted {
            true => self.1.pass(1),
            false => self.1.block(1),
        }
        admitted
    }
}

struct AdmitsCounted(Limiter, Statistics);

impl Subject for AdmitsCounted {
    fn decide(&self, _: &Ask) -> bool {
        self.0.admits_counted(1, &self.1)
    }
}
