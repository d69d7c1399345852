//! Clocks that step, both ways, while real time goes on.

use crate::common::{self, Limiter};
use crate::greedy::grab;
use crate::{MANY, STEPS, for_many_of, for_many_policies};
use testkit::model::{AlgorithmKind, Policy};
use testkit::traffic::{self, Rng};

/// The longest wait of a cost that fits, with a clock that only goes forward.
fn longest_wait_us(policy: &Policy) -> u64 {
    let places = u128::from(policy.decision_limit()) * u128::from(policy.window_us);
    let fill_us = places.div_ceil(u128::from(policy.limit.max(1)));
    match policy.algorithm {
        _ if policy.algorithm.has_capacity() => u64::try_from(fill_us).unwrap(),
        AlgorithmKind::SlidingCounter => 2 * policy.window_us,
        AlgorithmKind::SlidingWindow => policy.window_us + policy.window_us / policy.buckets,
        AlgorithmKind::SlidingLog => policy.window_us + policy.resolution_us,
        _ => policy.window_us,
    }
}

/// After any steps of the clock, a time that is W longer than the longest wait is enough if no further step happens.
///
/// Pitfall: an hour's step back locked callers out for an hour.
#[test]
fn nobody_waits_longer_than_a_window_because_of_a_step() {
    for_many_policies(701, 2 * MANY, |rng, policy| {
        let longest_us = longest_wait_us(&policy) + policy.window_us + policy.resolution_us;
        let mut limiter = common::limiter(&policy);
        let trace = traffic::jumpy_trace(rng, &policy, STEPS);
        for (at_us, cost) in trace {
            let answer = limiter.step(at_us, cost);
            if let Some(reported_us) = answer.retry_after_us {
                assert!(reported_us <= longest_us, "{reported_us}: {policy:?}");
            }
        }
        let (at_us, _) = *traffic::jumpy_trace(rng, &policy, STEPS).last().unwrap();
        limiter.step(at_us, 1);
        assert!(
            limiter.peek(at_us + longest_us, policy.decision_limit()).allowed,
            "at {at_us}: {policy:?}"
        );
    });
}

/// Real time, the reading of the clock, and how often it has stepped.
struct Wall {
    real_us: u64,
    reads_us: u64,
    steps: u64,
}

impl Wall {
    fn go_on(&mut self, rng: &mut Rng, policy: &Policy) {
        let w = policy.window_us;
        let by_us = rng.pick([0, 1, w / 10, w / 3, w - 1]);
        self.real_us += by_us;
        self.reads_us += by_us;
        if rng.chance(30) {
            self.steps += 1;
            let by_us = rng.pick([1, w / 2, w - 1, w, w + 1, 2 * w - 1, 5 * w + w / 3]);
            self.reads_us = if rng.chance(60) {
                self.reads_us.saturating_sub(by_us)
            } else {
                self.reads_us + by_us
            };
        }
    }
}

/// Over any real interval of length W: the bound, and one fill for each step within it. If the
/// bound itself comes from an edge of the clock (a window, a bucket of it), a step moves the edges,
/// and the interval between two steps keeps the bound by itself.
#[test]
fn no_step_grants_more_than_one_fill() {
    for_many_policies(702, 2 * MANY, |rng, policy| {
        let mut wall = Wall { real_us: 0, reads_us: 20 * policy.window_us, steps: 0 };
        let mut limiter = common::limiter(&policy);
        let mut taken = Vec::new();
        for _ in 0..STEPS {
            wall.go_on(rng, &policy);
            let got = grab(rng, limiter.as_mut(), wall.reads_us, 1);
            taken.extend(got.map(|one| (wall.real_us, wall.steps, one.cost)));
        }
        assert_fills(&policy, &taken);
    });
}

/// The units that an interval of length W may hold, and the units that each step may add.
fn allowance(policy: &Policy) -> (u64, u64) {
    let (limit, fill) = (policy.limit, policy.decision_limit());
    match policy.algorithm {
        AlgorithmKind::SlidingLog | AlgorithmKind::Concurrency => (limit, limit),
        AlgorithmKind::SlidingWindow if policy.strict => (limit, limit),
        // A queue's bound is about departures; its admissions follow a bucket's bound.
        _ if policy.algorithm.has_capacity() => (fill + limit, fill),
        _ => (2 * limit, 2 * limit),
    }
}

fn assert_fills(policy: &Policy, taken: &[(u64, u64, u64)]) {
    let (bound, fill) = allowance(policy);
    for (i, (from_us, before, _)) in taken.iter().enumerate() {
        let mut sum = 0_u128;
        for (at_us, steps, units) in &taken[i..] {
            if at_us - from_us >= policy.window_us {
                break;
            }
            sum += u128::from(*units);
            let fills = u128::from(steps - before) * u128::from(fill);
            assert!(sum <= u128::from(bound) + fills, "{sum}: {policy:?}");
        }
    }
}

/// However the clock steps, at most one fill is available at any reading, and a step of the clock
/// after which nothing was asked has granted nothing yet.
#[test]
fn at_any_reading_no_more_than_one_fill_is_there() {
    for_many_policies(704, MANY, |rng, policy| {
        let mut limiter = common::limiter(&policy);
        for (at_us, cost) in traffic::jumpy_trace(rng, &policy, STEPS) {
            let there = limiter.peek(at_us, 1).remaining;
            assert!(there <= policy.decision_limit(), "{there}: {policy:?}");
            assert!(!limiter.peek(at_us, policy.decision_limit() + 1).allowed, "{policy:?}");
            limiter.step(at_us, cost);
        }
    });
}

/// Units used up before a step back are used up after it, unless the weighted parts of a window are
/// weighted again.
#[test]
fn a_step_back_alone_gives_nothing() {
    for_many_policies(703, 2 * MANY, |rng, policy| {
        if policy.algorithm == AlgorithmKind::SlidingCounter || policy.limit == 0 {
            return;
        }
        let at_us = 30 * policy.window_us + rng.below(policy.window_us);
        let mut limiter = common::limiter(&policy);
        limiter.step(at_us, rng.between(1, policy.decision_limit()));
        let before = limiter.peek(at_us, 1).remaining;
        let back_us = at_us.saturating_sub(rng.below(29 * policy.window_us));
        assert_eq!(limiter.peek(back_us, 1).remaining, before, "{back_us}: {policy:?}");
    });
}

/// The wait is counted on the clock that was read, and includes the time from that reading to the last unit.
///
/// Pitfall: waits were counted from the time of the last unit for callers whose clock was still before it.
#[test]
fn after_a_step_back_the_wait_reported_is_enough_and_not_a_microsecond_too_much() {
    let mut waits = 0;
    for_many_policies(705, 2 * MANY, |rng, policy| {
        let mut limiter = common::limiter(&policy);
        for (at_us, cost) in traffic::trace(rng, &policy, 30) {
            limiter.step(at_us, cost);
            let back_us = rng.pick([1, policy.window_us / 3, policy.window_us]);
            let reads_us = at_us.saturating_sub(rng.between(0, back_us));
            let any = rng.between(1, policy.decision_limit().max(1));
            let answer = limiter.peek(reads_us, any);
            if let Some(wait_us @ 1..) = answer.retry_after_us {
                waits += u64::from(reads_us < at_us);
                assert!(limiter.peek(reads_us + wait_us, any).allowed, "{wait_us}: {policy:?}");
                assert!(
                    !limiter.peek(reads_us + wait_us - 1, any).allowed,
                    "{wait_us}: {policy:?}"
                );
            }
            assert_resets(limiter.as_mut(), reads_us, answer.reset_after_us);
        }
    });
    assert!(waits > 10_000, "only {waits} waits after a step back: the property says little");
}

/// Nothing is used after exactly that wait.
fn assert_resets(limiter: &mut dyn Limiter, reads_us: u64, reset_us: u64) {
    assert_eq!(limiter.peek(reads_us + reset_us, 0).reset_after_us, 0);
    if reset_us > 0 {
        assert_ne!(limiter.peek(reads_us + reset_us - 1, 0).reset_after_us, 0);
    }
}

/// A delay is the time that a request is held, regardless of the clock's readings.
#[test]
fn a_step_back_makes_no_delay_longer() {
    for_many_of(AlgorithmKind::LeakyQueue, 706, MANY, &mut |rng, policy| {
        let policy = Policy { limit: policy.limit.max(1), ..policy };
        let at_us = 5 * policy.window_us;
        let mut limiter = common::limiter(&policy);
        limiter.step(at_us, 1);
        let there = limiter.peek(at_us, 1);
        let back = limiter.peek(at_us - rng.below(policy.window_us), 1);
        assert_eq!(back.delay_us, there.delay_us, "{policy:?}");
    });
}
