//! Random walks: every algorithm next to its naive model, every value of every answer.
//!
//! `TIDEGATE_LONG=1` walks twenty times as far.

mod common;

use testkit::model::{AlgorithmKind, Model, Policy};
use testkit::traffic::{self, Rng};

/// Steps for each algorithm and kind of traffic.
fn walks() -> u64 {
    if testkit::threads::long() { 4_000 } else { 200 }
}

#[test]
fn a_random_walk_agrees_with_the_model() {
    for algorithm in AlgorithmKind::ALL {
        for seed in 0..walks() {
            let rng = &mut Rng::new(seed);
            let policy = traffic::policy(rng, algorithm);
            let trace = traffic::trace(rng, &policy, 120);
            walk(rng, &policy, &trace, seed);
        }
    }
}

#[test]
fn a_random_walk_with_a_clock_that_steps_both_ways_agrees_with_the_model() {
    for algorithm in AlgorithmKind::ALL {
        for seed in 0..walks() {
            let rng = &mut Rng::new(1_000_000 + seed);
            let policy = traffic::policy(rng, algorithm);
            let trace = traffic::jumpy_trace(rng, &policy, 120);
            walk(rng, &policy, &trace, seed);
        }
    }
}

/// Mostly asks; sometimes peeks, gives back, settles, changes the rule or resets.
fn walk(rng: &mut Rng, policy: &Policy, trace: &[(u64, u64)], seed: u64) {
    let mut policy = policy.clone();
    let mut model = Model::new(policy.clone());
    let mut limiter = common::limiter(&policy);
    // Units taken, with their time, and when the rule changed.
    let (mut taken, mut changed_us) = (Vec::new(), 0);
    let (mut before_us, mut steps_back, mut is_moved, mut is_unknown) = (0, 0, false, false);
    for (number, (at_us, cost)) in trace.iter().copied().enumerate() {
        let context = || format!("seed {seed}, step {number} at {at_us} cost {cost}, {policy:?}");
        steps_back += u32::from(at_us < before_us);
        is_unknown |= at_us < before_us && model.last_us().is_none();
        before_us = at_us;
        if model.last_us().is_some_and(|last_us| at_us + policy.window_us < last_us) {
            is_moved = true;
            is_unknown |= policy.algorithm == AlgorithmKind::Concurrency;
        }
        // Permits are known by their tokens, so their limiter does not know when a clock stepped back. No limiter knows
        // of a step that it does not see.
        if is_unknown || is_moved && steps_back > 1 {
            taken.clear();
        }
        match rng.below(100) {
            0..50 => {
                let expected = model.step(at_us, cost);
                assert_eq!(limiter.step(at_us, cost), expected, "{}", context());
                let since_us = model.last_us().unwrap_or(0);
                if expected.allowed && cost > 0 && since_us >= changed_us {
                    taken.push((since_us, cost));
                }
            }
            50..65 => {
                let expected = model.reserve(at_us, cost);
                let (answer, since_us) = limiter.reserve(at_us, cost);
                assert_eq!(answer, expected, "reserve, {}", context());
                if expected.allowed && cost > 0 && since_us >= changed_us {
                    assert_eq!(Some(since_us), model.last_us(), "{}", context());
                    taken.push((since_us, cost));
                }
            }
            65..80 if !taken.is_empty() => {
                let (since_us, reserved) =
                    taken.swap_remove(rng.below(taken.len() as u64) as usize);
                let actual = rng.skewed(reserved + 2);
                let settled = limiter.settle_since(at_us, since_us, reserved, actual);
                let expected = model.settle_since(at_us, since_us, reserved, actual);
                assert_eq!(settled.late_units(), expected.late, "settle, {}", context());
            }
            65..80 => {}
            80..88 => assert_eq!(
                limiter.peek(at_us, cost),
                model.peek(at_us, cost),
                "peek, {}",
                context()
            ),
            // If units came back once with a time and once without, they would be given back twice.
            88..92 if policy.limit > 0 => {
                limiter.refund(at_us, cost);
                model.refund(at_us, cost);
            }
            88..92 => {}
            92..96 => {
                let actual = rng.skewed(2 * cost + 2);
                limiter.settle(at_us, cost, actual);
                model.settle(at_us, cost, actual);
            }
            96..99 => {
                policy = changed(rng, &policy);
                if model.last_us().is_none() {
                    // The start of a bucket would depend on whether a state exists that remembers only its reset.
                    policy.initial = None;
                }
                limiter = limiter.amend(at_us, &policy);
                model.replace(at_us, policy.clone());
                changed_us = changed_us.max(at_us).max(model.last_us().unwrap_or(0));
                let is_gone = !limiter.exists() || model.last_us().is_none();
                if is_gone || policy.window_us == 0 || is_moved {
                    // A limiter that does not exist remembers nothing; its table knows when the rule changed. And where
                    // nothing ever leaves, units taken before it existed would seem to be there. A limiter that was
                    // moved back need not know of it under another rule either.
                    taken.clear();
                }
            }
            _ => {
                limiter.reset_at(at_us);
                model.reset(at_us);
                if policy.algorithm == AlgorithmKind::Concurrency {
                    taken.clear();
                }
            }
        }
    }
}

/// Often the same shape with another limit, or a limit of 0; sometimes without a window, sometimes
/// another rule.
fn changed(rng: &mut Rng, policy: &Policy) -> Policy {
    if rng.chance(30) {
        let algorithm = rng.pick(AlgorithmKind::ALL);
        if !one_algorithm(policy.algorithm, algorithm) {
            return traffic::policy(rng, algorithm);
        }
    }
    let mut next = policy.clone();
    if policy.window_us == 0 {
        next.window_us = rng.pick([1_000_000, 60_000_000]);
        next.buckets = 10;
        next.resolution_us = 1;
    }
    if rng.chance(25) {
        next.limit = 0;
        next.window_us *= rng.pick([0, 1, 1]);
        return next;
    }
    next.limit = rng.between(1, 2 * policy.limit.clamp(1, 400_000_000) + 2);
    next.capacity = policy.capacity.map(|capacity| rng.between(1, 2 * capacity.min(400_000_000)));
    // A level that is far above the new capacity is waited for only in part.
    if policy.algorithm.has_capacity() && rng.chance(30) {
        next.limit = 1 + next.limit / 40;
        next.capacity = next.capacity.map(|capacity| 1 + capacity / 40);
    }
    next.initial = None;
    if common::rule(&next).is_ok() { next } else { policy.clone() }
}

/// Token and leaky bucket are one algorithm, which keeps fractions of units when its name changes;
/// the models have two, which round them up.
fn one_algorithm(a: AlgorithmKind, b: AlgorithmKind) -> bool {
    let bucket =
        |algorithm| matches!(algorithm, AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket);
    a != b && bucket(a) && bucket(b)
}
