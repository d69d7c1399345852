//! Properties that hold for every algorithm, with any rule and any traffic.
//!
//! Each property is a seeded loop over random rules and traces, so a failure is a seed anyone can
//! repeat. `TIDEGATE_LONG=1` tries twenty times as many.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod amend;
mod bounds;
mod carried;
mod clock;
#[path = "../common/mod.rs"]
mod common;
mod extremes;
mod greedy;
mod neutral;
mod queue;
mod reached;
mod refused_rules;
mod same;
mod values;

use common::Limiter;
use testkit::model::{AlgorithmKind, Expected, Policy};
use testkit::traffic::{self, Rng};

/// Random rules of each algorithm, in a property that costs little.
const MANY: u64 = 150;
/// Requests made under each rule.
const STEPS: usize = 120;

/// Calls `check` with `count` random rules of every algorithm, or twenty times as many.
fn for_many_policies(seed: u64, count: u64, mut check: impl FnMut(&mut Rng, Policy)) {
    for algorithm in AlgorithmKind::ALL {
        for_many_of(algorithm, seed, count, &mut check);
    }
}

/// Calls `check` with `count` random rules of one algorithm.
fn for_many_of(
    algorithm: AlgorithmKind,
    seed: u64,
    count: u64,
    check: &mut dyn FnMut(&mut Rng, Policy),
) {
    let mut rng = Rng::new(seed);
    for _ in 0..times_as_many(count) {
        let policy = policy(&mut rng, algorithm);
        check(&mut rng, policy);
    }
}

fn times_as_many(count: u64) -> u64 {
    if testkit::threads::long() { 20 * count } else { count }
}

/// A random rule; sometimes a queue of capacity 0, which admits a request only when it is idle.
fn policy(rng: &mut Rng, algorithm: AlgorithmKind) -> Policy {
    let mut policy = traffic::policy(rng, algorithm);
    if algorithm == AlgorithmKind::LeakyQueue && rng.chance(10) {
        policy.capacity = Some(0);
    }
    policy
}

/// Calls `check` after each request of a forward trace, with the request and its answer.
fn for_many_answers(seed: u64, mut check: impl FnMut(&mut dyn Limiter, u64, u64, Expected)) {
    for_many_policies(seed, MANY, |rng, policy| {
        let mut limiter = common::limiter(&policy);
        for (at_us, cost) in traffic::trace(rng, &policy, STEPS) {
            let answer = limiter.step(at_us, cost);
            check(limiter.as_mut(), at_us, cost, answer);
        }
    });
}

/// The answers of a new limiter of the rule to these requests.
fn answers(policy: &Policy, requests: &[(u64, u64)]) -> Vec<Expected> {
    let mut limiter = common::limiter(policy);
    requests.iter().map(|(at_us, cost)| limiter.step(*at_us, *cost)).collect()
}

/// The last instant a limiter knows: 2^53 - 1 microseconds.
const END_US: u64 = (1 << 53) - 1;
