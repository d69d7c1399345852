//! The cost that a gate adds to a limiter: one rule, three rules, and two rules among many.
//!
//! The whole answer is asked for. Each rule that a request meets has a limiter for its key.

use super::{Candidate, Subject};
use crate::cases::{Case, Rule, Shape};
use crate::workload::Ask;
use ::tidegate::{AlgorithmKind, Descriptor, Gate, KeyedLimiter, Policy, Request, RuleSpec, Spec};
use std::time::Duration;

/// The gates: a name, the number of rules, and the number of rules with a limiter for a request.
const GATES: [(&str, usize, usize); 4] = [
    ("tidegate/Gate", 1, 1),
    ("tidegate/Gate, 3 rules", 3, 3),
    ("tidegate/Gate, 2 of 10 rules", 10, 2),
    ("tidegate/Gate, 2 of 10000 rules", 10_000, 2),
];

/// The most units in 366 days: a limiter gets one back in three seconds, so that none is idle when its key comes again,
/// and dropped, also where valgrind counts.
const MOST_UNITS: u64 = 10_000_000;

/// A limiter for each key, and gates over such limiters.
pub fn offers(case: &Case) -> Vec<Candidate> {
    if case.shape != Shape::Gate {
        return Vec::new();
    }
    let keyed = |rule| Keyed(limiter(spec(rule)));
    let mut offered = vec![Candidate::new("tidegate/KeyedLimiter", case.rule, keyed)];
    offered.extend(GATES.map(|(name, rules, ask)| {
        Candidate::new(name, case.rule, move |rule| OfGate(gate(rule, rules, ask)))
    }));
    offered
}

fn spec(rule: Rule) -> Spec {
    let limit = rule.capacity.min(MOST_UNITS);
    Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(366 * 86_400))
}

#[expect(clippy::expect_used, reason = "a rule of this file that is not sound is to be mended")]
fn limiter(spec: Spec) -> KeyedLimiter {
    KeyedLimiter::new(spec).expect("a sound rule")
}

#[expect(clippy::expect_used, reason = "a rule of this file that is not sound is to be mended")]
fn gate(rule: Rule, rules: usize, matching: usize) -> Gate {
    let of_path = |number: usize| {
        let per_user = RuleSpec::new(number.to_string(), spec(rule)).key(["user"]);
        per_user.when("path", (number / matching).to_string())
    };
    Gate::new(Policy::new((0..rules).map(of_path).collect()).expect("sound rules"))
}

struct Keyed(KeyedLimiter);

impl Subject for Keyed {
    fn decide(&self, ask: &Ask) -> bool {
        self.0.check(&ask.key, 1).is_allowed()
    }
}

struct OfGate(Gate);

impl Subject for OfGate {
    fn decide(&self, ask: &Ask) -> bool {
        let entries = [("user", ask.key.as_str()), ("path", "0")];
        let descriptors = [Descriptor::new(&entries)];
        self.0.check(Request::new("default", &descriptors)).is_allowed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_meets_as_many_limiters_as_the_name_of_a_gate_says() {
        let entries = [("user", "ada"), ("path", "0")];
        let descriptors = [Descriptor::new(&entries)];
        for (name, rules, ask) in GATES {
            let gate = gate(Rule::PLENTY, rules, ask);
            let answer = gate.check(Request::new("default", &descriptors));
            assert_eq!((gate.counts().keys, answer.matched().len()), (ask, ask), "{name}");
        }
    }
}
