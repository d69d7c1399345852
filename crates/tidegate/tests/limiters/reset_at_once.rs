//! A reset of several limiters is one step: no request comes between two of them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::packed::{TODAY_US, TestClock, long, together};
use tidegate::{
    AlgorithmKind, Clock, Descriptor, Gate, Micros, Policy, Request, RuleSpec, Spec, Timestamp,
};

/// Three rules, in a fixed order of tables, that are always charged and forgotten together: whoever
/// looks, they are equal.
fn are_equal_at_any_time<C: Clock>(algorithm: AlgorithmKind, clock: C) {
    let spec = Spec::new(algorithm, 1_000_000, Micros::from_secs(86_400));
    let rule = |name: &str| RuleSpec::new(name, spec).key(["user"]);
    let rules = vec![rule("a"), rule("b"), rule("c")];
    let gate = Gate::with_clock(Policy::new(rules).unwrap(), clock);
    let entries = [("user", "ada")];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new(Request::DEFAULT_DOMAIN, &descriptors);
    together(4, |_, rng| {
        for _ in 0..if long() { 20_000 } else { 1_500 } {
            if rng.chance(40) {
                assert_eq!(gate.reset(&request), 3);
            } else {
                assert!(gate.admits(&request));
            }
            let answer = gate.peek(&request);
            let left: Vec<_> =
                answer.matched().iter().map(|matched| matched.decision().remaining).collect();
            assert!(left.windows(2).all(|two| two[0] == two[1]), "{algorithm}: {left:?}");
        }
    });
}

#[test]
fn limiters_charged_and_forgotten_together_are_equal_at_any_time() {
    for algorithm in
        [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow, AlgorithmKind::TokenBucket]
    {
        are_equal_at_any_time(algorithm, TestClock::at(TODAY_US));
        are_equal_at_any_time(algorithm, Timestamp::from_micros(TODAY_US));
    }
}
