//! Mistakes found in released limiters, each as a test with its name. None of them may happen here.
//!
//! Mistakes that need several keys, limits or threads are tests of the engine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod changes;
#[path = "../common/mod.rs"]
mod common;
mod rates;
mod time;
mod windows;

use common::Limiter;
use testkit::model::{AlgorithmKind, Policy};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;
const HOUR: u64 = 3_600 * SECOND;

/// A new limiter of so many units per window.
fn limiter(algorithm: AlgorithmKind, limit: u64, window_us: u64) -> Box<dyn Limiter> {
    common::limiter(&Policy::new(algorithm, limit, window_us))
}

/// A new bucket of that capacity: a token bucket, or the same algorithm under another name.
fn bucket(algorithm: AlgorithmKind, limit: u64, window_us: u64, capacity: u64) -> Box<dyn Limiter> {
    let policy = Policy::new(algorithm, limit, window_us);
    common::limiter(&Policy { capacity: Some(capacity), ..policy })
}

/// Units admitted when one is asked for at each of these times.
fn admitted(limiter: &mut dyn Limiter, times_us: impl IntoIterator<Item = u64>) -> u64 {
    times_us.into_iter().map(|at_us| u64::from(limiter.step(at_us, 1).allowed)).sum()
}

/// Every `step_us` from `from_us` to `to_us`, the ends included where they fall on a step.
fn every(step_us: u64, from_us: u64, to_us: u64) -> impl Iterator<Item = u64> {
    (0..=(to_us - from_us) / step_us).map(move |step| from_us + step * step_us)
}

/// Units admitted at one instant, one by one until one is refused.
fn burst(limiter: &mut dyn Limiter, at_us: u64) -> u64 {
    (0..1_000_000).take_while(|_| limiter.step(at_us, 1).allowed).count() as u64
}

const BUCKETS: [AlgorithmKind; 3] =
    [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket, AlgorithmKind::LeakyQueue];
