//! The cost that a gate adds to a limiter: one rule, three rules, and two rules among many.
//!
//! The whole answer is asked for. Each rule that a request meets has a limiter for its key.

use super::{Candidate, sound};
use crate::cases::{Case, Rule, Shape};
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
    let rule = case.rule;
    let mut offered = vec![Candidate::asked(
        "tidegate/KeyedLimiter",
        move || sound(KeyedLimiter::new(spec(rule))),
        |limiter, ask| limiter.check(&ask.key, 1).is_allowed(),
    )];
    offered.extend(GATES.map(|(name, rules, matching)| {
        Candidate::asked(
            name,
            move || gate(rule, rules, matching),
            |gate, ask| {
                let entries = [("user", ask.key.as_str()), ("path", "0")];
                gate.check(Request::new("default", &[Descriptor::new(&entries)])).is_allowed()
            },
        )
    }));
    offered
}

fn spec(rule: Rule) -> Spec {
    let limit = rule.capacity.min(MOST_UNITS);
    Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(366 * 86_400))
}

fn gate(rule: Rule, rules: usize, matching: usize) -> Gate {
    let of_path = |number: usize| {
        let per_user = RuleSpec::new(number.to_string(), spec(rule)).key(["user"]);
        per_user.when("path", (number / matching).to_string())
    };
    Gate::new(sound(Policy::new((0..rules).map(of_path).collect())))
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
