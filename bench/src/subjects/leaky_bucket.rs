//! leaky-bucket 1.1: a token bucket for waiting tasks; here its `try_acquire`, which needs no
//! runtime. Fair (its default) always takes its lock; unfair first tries a compare-and-swap.
//!
//! Unfair is left out where threads share a limiter: after two of them have raced it can refuse although it is full,
//! and then its time is not the time of an allowed decision.
//!
//! It has no keys, so keyed it stands in a `DashMap`, fair.

use super::{Candidate, per_key};
use crate::cases::{Case, Rule, Shape};
use ::leaky_bucket::RateLimiter;
use std::time::Duration;

/// It counts its refills in whole milliseconds.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);

/// Direct in both manners, and in a `DashMap`.
pub fn offers(case: &Case) -> Vec<Candidate> {
    let rule = case.rule;
    let direct = |name, fair| {
        Candidate::asked(name, move || limiter(rule, fair), |one, _| one.try_acquire(1))
    };
    let (fair, unfair) = (direct("leaky-bucket/fair", true), direct("leaky-bucket/unfair", false));
    let keyed = per_key::<u64, _>(
        "leaky-bucket/u64 in DashMap",
        move || limiter(rule, true),
        |one| one.try_acquire(1),
    );
    match case.shape {
        Shape::One => vec![fair, unfair],
        Shape::Keyed => vec![keyed],
        Shape::HotKey => vec![fair, keyed],
        _ => Vec::new(),
    }
}

fn limiter(rule: Rule, fair: bool) -> RateLimiter {
    let interval = rule.every.max(LEAST_INTERVAL);
    let refill = interval.as_nanos() / rule.every.as_nanos().max(1);
    let capacity = usize::try_from(rule.capacity).unwrap_or(usize::MAX);
    RateLimiter::builder()
        .max(capacity)
        .initial(capacity)
        .refill(usize::try_from(refill).unwrap_or(usize::MAX))
        .interval(interval)
        .fair(fair)
        .build()
}
