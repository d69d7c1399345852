//! Random walks: every algorithm beside its naive model, every value of every answer.
//!
//! `TIDEGATE_LONG=1` walks twenty times as far.

mod common;

use testkit::model::{AlgorithmKind, Model, Policy};
use testkit::traffic::{self, Rng};

/// Steps for each algorithm and kind of traffic.
fn walks() -> u64 {
    if std::env::var_os("TIDEGATE_LONG").is_some() { 4_000 } else { 200 }
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
    for (number, (at_us, cost)) in trace.iter().copied().enumerate() {
        let context = || format!("seed {seed}, step {number} at {at_us} cost {cost}, {policy:?}");
        match rng.below(100) {
            0..80 => {
                assert_eq!(limiter.step(at_us, cost), model.step(at_us, cost), "{}", context())
            }
            80..88 => assert_eq!(
                limiter.peek(at_us, cost),
                model.peek(at_us, cost),
                "peek, {}",
                context()
            ),
            88..92 => {
                limiter.refund(at_us, cost);
                model.refund(at_us, cost);
            }
            92..96 => {
                let actual = rng.skewed(2 * cost + 2);
                limiter.settle(at_us, cost, actual);
                model.settle(at_us, cost, actual);
            }
            96..99 => {
                policy = changed(rng, &policy);
                limiter = limiter.amend(at_us, &policy);
                model.amend(at_us, policy.clone());
            }
            _ => {
                limiter.reset();
                model.forget();
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
