//! ratelimit 2: a token bucket of two atomics and `Instant`; it has no keys, so keyed it stands
//! in a `DashMap`.
//!
//! Asked by `try_wait`, built by its builder. Starts full here, as every other subject.

use super::per_key::PerKey;
use super::{Candidate, Subject};
use crate::cases::{Case, Rule, Shape};
use crate::workload::Ask;
use ::ratelimit::Ratelimiter;

/// Direct, and in a `DashMap` by either kind of key.
pub fn offers(case: &Case) -> Vec<Candidate> {
    match case.shape {
        Shape::One => vec![direct(case.rule)],
        Shape::Keyed => keyed(case.rule),
        Shape::HotKey => std::iter::once(direct(case.rule)).chain(keyed(case.rule)).collect(),
        _ => Vec::new(),
    }
}

fn direct(rule: Rule) -> Candidate {
    Candidate::new("ratelimit/direct", rule, limiter)
}

fn keyed(rule: Rule) -> Vec<Candidate> {
    vec![
        Candidate::new("ratelimit/String in DashMap", rule, |rule| {
            PerKey::<String, _, _>::new(move || limiter(rule))
        }),
        Candidate::new("ratelimit/u64 in DashMap", rule, |rule| {
            PerKey::<u64, _, _>::new(move || limiter(rule))
        }),
    ]
}

fn limiter(rule: Rule) -> Ratelimiter {
    Ratelimiter::builder(1)
        .period(rule.every)
        .max_tokens(rule.capacity)
        .initial_available(rule.capacity)
        .build()
        .unwrap_or_else(|_| Ratelimiter::new(1))
}

impl Subject for Ratelimiter {
    fn decide(&self, _: &Ask) -> bool {
        self.try_wait().is_ok()
    }
}
