//! Any verb, any number, in any order: nothing panics, wraps, or makes a limit disappear.

use crate::common::{self, Limiter};
use crate::{END_US, MANY, for_many_policies, policy};
use testkit::model::{AlgorithmKind, Policy};
use testkit::traffic::Rng;

/// Any number, the edges of valid ranges more often.
fn any(rng: &mut Rng) -> u64 {
    let uniform = rng.next_u64();
    let near = rng.skewed(u64::MAX);
    rng.pick([
        0,
        1,
        uniform,
        near,
        u64::MAX,
        u64::MAX - 1,
        u64::MAX / 2 + 1,
        1 << 53,
        END_US,
        u64::from(u32::MAX),
        u64::from(u32::MAX) + 1,
        1_000_000_000,
        3_689_348_816,
    ])
}

#[test]
fn no_input_panics_or_wraps() {
    for_many_policies(801, 2 * MANY, |rng, policy| {
        let (mut policy, mut limiter) = (policy.clone(), common::limiter(&policy));
        for _ in 0..60 {
            let (at_us, a, b) = (any(rng), any(rng), any(rng));
            let small = rng.below(4);
            match rng.below(8) {
                0 | 1 => check(limiter.step(at_us, a), a),
                2 => check(limiter.step(at_us, small), small),
                3 => check(limiter.peek(at_us, a), a),
                4 => limiter.refund(at_us, a),
                5 if rng.chance(30) => limiter.return_permit(at_us, a, b),
                5 if rng.chance(30) => {
                    limiter.renew(at_us, a);
                }
                5 => limiter.settle(at_us, a, b),
                6 => {
                    policy = next(rng, &policy);
                    limiter = limiter.amend(at_us, &policy);
                }
                _ => {
                    limiter.forget_if_new(at_us);
                }
            }
        }
        settles(rng, &policy, limiter);
    });
}

/// Pitfall: `period * (n - 1)` wrapped, and a bucket of 10 admitted a cost of 3,689,348,816.
fn check(answer: testkit::model::Expected, cost: u64) {
    assert!(answer.remaining <= answer.limit, "{answer:?}");
    assert!(!answer.allowed || cost <= answer.limit, "{cost} was admitted: {answer:?}");
    assert!(answer.allowed || cost > 0, "a cost of nothing was refused: {answer:?}");
    assert_eq!(answer.allowed, answer.retry_after_us == Some(0), "{answer:?}");
    assert_eq!(cost > answer.limit, answer.retry_after_us.is_none(), "{cost}: {answer:?}");
}

fn next(rng: &mut Rng, old: &Policy) -> Policy {
    let algorithm = rng.pick([old.algorithm, rng.clone().pick(AlgorithmKind::ALL)]);
    policy(rng, algorithm)
}

/// A limiter keeps its limit after any history.
fn settles(rng: &mut Rng, policy: &Policy, mut limiter: Box<dyn Limiter>) {
    let at_us = any(rng);
    assert!(at_one_instant(limiter.as_mut(), at_us) <= policy.decision_limit(), "{policy:?}");
}

/// The units available at one instant: the reported units, then as many again, then single units.
fn at_one_instant(limiter: &mut dyn Limiter, at_us: u64) -> u64 {
    let mut got = 0;
    for _ in 0..4 {
        let there = limiter.peek(at_us, 0).remaining;
        for cost in [there, there / 2, 1] {
            if limiter.step(at_us, cost).allowed {
                got += cost;
            }
        }
    }
    got
}

#[test]
fn a_debt_without_end_leaves_the_limit_in_force() {
    for_many_policies(803, MANY, |rng, policy| {
        let mut limiter = common::limiter(&policy);
        limiter.step(5, 1);
        if policy.algorithm == AlgorithmKind::Concurrency {
            return; // a settlement makes no debt
        }
        limiter.settle(5, rng.below(2), u64::MAX);
        assert!(!limiter.step(5, 1).allowed, "{policy:?}");
        assert!(!limiter.step(5, policy.decision_limit().max(1)).allowed, "{policy:?}");
        let later_us = 5 + 3 * policy.window_us;
        let got = at_one_instant(limiter.as_mut(), later_us);
        assert!(got <= policy.decision_limit(), "{got}: {policy:?}");
        // All of the debt is gone with the window, but the limit is not.
        if !policy.algorithm.has_capacity() {
            assert_eq!(got, policy.decision_limit(), "{policy:?}");
        }
    });
}
