//! ratelimit 2: a token bucket of two atomics and `Instant`; it has no keys, so keyed it stands
//! in a `DashMap`.
//!
//! Asked by `try_wait`, built by its builder. Starts full here, as every other subject.

use super::{Candidate, per_key};
use crate::cases::{Case, Rule, Shape};
use ::ratelimit::Ratelimiter;

/// Direct, and in a `DashMap` by either kind of key.
pub fn offers(case: &Case) -> Vec<Candidate> {
    let new = {
        let rule = case.rule;
        move || limiter(rule)
    };
    let admits = |limiter: &Ratelimiter| limiter.try_wait().is_ok();
    let direct = Candidate::asked("ratelimit/direct", new, move |limiter, _| admits(limiter));
    let by_text = per_key::<String, _>("ratelimit/String in DashMap", new, admits);
    let by_number = per_key::<u64, _>("ratelimit/u64 in DashMap", new, admits);
    match case.shape {
        Shape::One => vec![direct],
        Shape::Keyed => vec![by_text, by_number],
        Shape::HotKey => vec![direct, by_text, by_number],
        _ => Vec::new(),
    }
}

fn limiter(rule: Rule) -> Ratelimiter {
    Ratelimiter::builder(1)
        .period(rule.every)
        .max_tokens(rule.capacity)
        .initial_available(rule.capacity)
        .build()
        .unwrap_or_else(|_| Ratelimiter::new(1))
}
