//! Reservations of an unlimited rule, and keys that are reset.

use crate::packed::{TODAY_US, TestClock};
use std::time::Duration;
use tidegate::{AlgorithmKind, Clock, KeyedLimiter, Limiter, Spec, Timestamp};

const DAY: Duration = Duration::from_secs(86_400);

fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    let mut spec = Spec::new(algorithm, limit, DAY);
    spec.capacity = (algorithm == AlgorithmKind::LeakyQueue).then_some(limit - 1);
    spec
}

#[test]
fn nothing_reserved_from_an_unlimited_rule_comes_back_to_a_limited_one() {
    let clock = TestClock::at(TODAY_US);
    let alone =
        Limiter::with_clock(Spec::unlimited(AlgorithmKind::FixedWindow), clock.clone()).unwrap();
    let keyed =
        KeyedLimiter::with_clock(Spec::unlimited(AlgorithmKind::FixedWindow), clock).unwrap();
    let reserved = (alone.reserve(50).unwrap(), keyed.reserve("key", 50).unwrap());
    alone.amend(per_day(AlgorithmKind::FixedWindow, 10)).unwrap();
    keyed.amend(per_day(AlgorithmKind::FixedWindow, 10)).unwrap();
    assert!(alone.admits(10) && keyed.admits("key", 10));
    assert_eq!(alone.settle(reserved.0, 0).remaining, 0);
    assert_eq!(keyed.settle("key", reserved.1, 0).remaining, 0);
}

fn is_as_new_after_a_reset<C: Clock + Clone>(algorithm: AlgorithmKind, clock: &C, amended: bool) {
    let keyed = KeyedLimiter::with_clock(per_day(algorithm, 5), clock.clone()).unwrap();
    if amended {
        keyed.amend(per_day(algorithm, 4)).unwrap();
    }
    let capacity = keyed.peek("ada", 1).remaining;
    assert!(keyed.admits("ada", capacity) && keyed.admits("bob", 1));
    keyed.reset("ada");
    let seen = (keyed.peek("ada", 1).remaining, keyed.peek("bob", 1).remaining, keyed.keys());
    // A limiter remembers its reset, but for permits, which their tokens name.
    let keys = if algorithm == AlgorithmKind::Concurrency { 1 } else { 2 };
    assert_eq!(seen, (capacity, capacity - 1, keys), "{algorithm}, amended: {amended}");
    keyed.reset("nobody");
    assert_eq!(keyed.keys(), keys);
}

#[test]
fn a_key_that_is_reset_is_as_new_and_no_other_is() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        for amended in [false, true] {
            is_as_new_after_a_reset(algorithm, &TestClock::at(TODAY_US), amended);
            is_as_new_after_a_reset(algorithm, &Timestamp::from_micros(TODAY_US), amended);
        }
    }
}
