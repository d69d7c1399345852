//! What it costs to count a decision: with and without, and beside the clock that it reads.
//!
//! `tidegate/pass` less `floor/clock` is the counting alone, for whoever has read the time already.

use super::{Candidate, Subject};
use crate::cases::{Case, Rule, Shape};
use crate::workload::Ask;
use ::tidegate::{Algorithm, Clock, Limiter, Micros, Spec, Statistics, SystemClock};
use std::hint::black_box;

/// The clock, the count, the decision, and both; a guard that also times what it stands for.
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
        ],
        _ => Vec::new(),
    }
}

#[expect(clippy::expect_used, reason = "a rule of this file that is not sound is to be mended")]
fn limiter(rule: Rule) -> Limiter {
    let window = Micros::from_secs(366 * 86_400);
    let limit = rule.capacity.min(::tidegate::MAX_LIMIT);
    Limiter::new(Spec::new(Algorithm::TokenBucket, limit, window)).expect("a sound rule")
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
