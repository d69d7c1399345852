//! leaky-bucket 1.1: a token bucket for waiting tasks; here its `try_acquire`, which needs no
//! runtime. Fair (its default) always takes its lock; unfair first tries a compare-and-swap.
//!
//! Unfair is left out where threads share a limiter: after two of them have raced it can refuse although it is full,
//! and then its time is not the time of an allowed decision.
//!
//! It has no keys, so keyed it stands in a `DashMap`, fair.

use super::per_key::PerKey;
use super::{Candidate, Subject};
use crate::cases::{Case, Rule, Shape};
use crate::workload::Ask;
use ::leaky_bucket::RateLimiter;
use std::time::Duration;

/// It counts its refills in whole milliseconds.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);

const FAIR: (&str, bool) = ("leaky-bucket/fair", true);
const UNFAIR: (&str, bool) = ("leaky-bucket/unfair", false);

/// Direct in both manners, and in a `DashMap`.
pub fn offers(case: &Case) -> Vec<Candidate> {
    match case.shape {
        Shape::One => vec![direct(case.rule, FAIR), direct(case.rule, UNFAIR)],
        Shape::Keyed => vec![keyed(case.rule)],
        Shape::HotKey => vec![direct(case.rule, FAIR), keyed(case.rule)],
        _ => Vec::new(),
    }
}

fn direct(rule: Rule, (name, fair): (&'static str, bool)) -> Candidate {
    Candidate::new(name, rule, move |rule| limiter(rule, fair))
}

fn keyed(rule: Rule) -> Candidate {
    Candidate::new("leaky-bucket/u64 in DashMap", rule, |rule| {
        PerKey::<u64, _, _>::new(move || limiter(rule, true))
    })
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

impl Subject for RateLimiter {
    fn decide(&self, _: &Ask) -> bool {
        self.try_acquire(1)
    }
}
