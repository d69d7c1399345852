//! The values of an answer are true: each promise is kept at that time, and not a microsecond sooner.

use crate::common::Limiter;
use crate::{END_US, MANY, STEPS, common, for_many_answers, for_many_policies};
use testkit::traffic;

/// Returns whether the clock reaches that far.
fn is_reachable(at_us: u64, wait_us: u64) -> bool {
    at_us.checked_add(wait_us).is_some_and(|then| then < END_US)
}

/// Pitfall: in whole seconds `retry_after` was 0 while denied, or too early, and callers came back to a second refusal.
#[test]
fn retry_after_is_sufficient_and_minimal() {
    for_many_answers(501, |limiter, at_us, cost, answer| match answer.retry_after_us {
        Some(0) => assert!(answer.allowed),
        Some(wait_us) if is_reachable(at_us, wait_us) => {
            assert!(!answer.allowed);
            assert!(limiter.peek(at_us + wait_us, cost).allowed, "{wait_us} is too early");
            assert!(!limiter.peek(at_us + wait_us - 1, cost).allowed, "{wait_us} is too late");
        }
        Some(_) => assert!(!answer.allowed),
        None => {
            assert!(!answer.allowed && cost > answer.limit, "never, though it fits: {answer:?}");
            assert!(!limiter.peek(END_US, cost).allowed);
        }
    });
}

#[test]
fn every_cost_that_fits_has_a_wait() {
    for_many_policies(502, MANY, |rng, policy| {
        let mut limiter = common::limiter(&policy);
        for (at_us, cost) in traffic::trace(rng, &policy, STEPS) {
            limiter.step(at_us, cost);
            let any = rng.between(1, policy.decision_limit().max(1));
            let wait = limiter.peek(at_us, any).retry_after_us;
            assert_eq!(wait.is_none(), policy.limit == 0, "{any}: {policy:?}");
            if let Some(wait_us @ 1..) = wait.filter(|wait_us| is_reachable(at_us, *wait_us)) {
                assert!(limiter.peek(at_us + wait_us, any).allowed, "{any}: {policy:?}");
                assert!(!limiter.peek(at_us + wait_us - 1, any).allowed, "{any}: {policy:?}");
            }
        }
    });
}

#[test]
fn reset_after_is_sufficient_and_minimal() {
    for_many_answers(503, |limiter, at_us, _, answer| {
        let reset_us = answer.reset_after_us;
        if !is_reachable(at_us, reset_us) {
            return;
        }
        let then = limiter.peek(at_us + reset_us, 1);
        assert_eq!((then.remaining, then.reset_after_us), (answer.limit, 0));
        if reset_us > 0 {
            let sooner = limiter.peek(at_us + reset_us - 1, 1);
            assert!(sooner.remaining < answer.limit && sooner.reset_after_us == 1, "{sooner:?}");
        }
    });
}

/// A bucket that begins with fewer tokens is idle only if it never begins again.
///
/// Pitfall: milliseconds were given instead of seconds, and keys were kept a thousand times too long.
#[test]
fn a_limiter_may_be_forgotten_just_when_reset_after_says() {
    for_many_policies(504, 2 * MANY, |rng, policy| {
        let mut limiter = common::limiter(&policy);
        for (at_us, cost) in traffic::trace(rng, &policy, 20) {
            let reset_us = limiter.step(at_us, cost).reset_after_us;
            if !is_reachable(at_us, reset_us) {
                continue;
            }
            if reset_us > 0 {
                assert!(!limiter.forget_if_new(at_us + reset_us - 1), "{policy:?}");
            }
            let begins_part_full = policy.limit > 0 && policy.initial < policy.capacity;
            if policy.initial.is_none() {
                assert!(limiter.forget_if_new(at_us + reset_us), "{policy:?}");
            } else if begins_part_full && policy.initial != Some(policy.capacity()) {
                assert!(!limiter.forget_if_new(at_us + reset_us), "{policy:?}");
            }
        }
    });
}

#[test]
fn remaining_is_what_would_be_admitted_now() {
    for_many_answers(505, |limiter, at_us, _, answer| {
        assert!(limiter.peek(at_us, answer.remaining).allowed, "{answer:?}");
        assert!(!limiter.peek(at_us, answer.remaining + 1).allowed, "{answer:?}");
    });
}

#[test]
fn remaining_requests_of_one_unit_are_admitted_and_not_one_more() {
    for_many_policies(506, 2 * MANY, |rng, policy| {
        let mut limiter = common::limiter(&policy);
        let mut last = (0, 0);
        for (at_us, cost) in traffic::trace(rng, &policy, 30) {
            last = (at_us, limiter.step(at_us, cost).remaining);
        }
        if last.1 <= 5_000 {
            assert_eq!(count_units(limiter.as_mut(), last.0, last.1 + 3), last.1, "{policy:?}");
        }
    });
}

fn count_units(limiter: &mut dyn Limiter, at_us: u64, asks: u64) -> u64 {
    (0..asks).map(|_| u64::from(limiter.step(at_us, 1).allowed)).sum()
}
