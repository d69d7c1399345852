//! governor 0.10: GCRA in one atomic word; keyed, a `DashMap` of such words; `quanta` as clock.
//!
//! Asked by `check` and `check_key`, with the stores and the clock of its default constructors.
//! `check_key` borrows the key and clones it (a `String` allocates) only at its first request.

use super::{Candidate, Key};
use crate::cases::{Case, Rule, Shape};
use ::governor::clock::DefaultClock;
use ::governor::state::keyed::DashMapStateStore;
use ::governor::{Quota, RateLimiter};
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;

/// Direct, and keyed by either kind of key under either hasher.
pub fn offers(case: &Case) -> Vec<Candidate> {
    let rule = case.rule;
    let direct = || {
        Candidate::asked(
            "governor/direct",
            move || RateLimiter::direct(quota(rule)),
            |limiter, _| limiter.check().is_ok(),
        )
    };
    let keyed = || {
        vec![
            by_text(rule),
            keyed::<String, ahash::RandomState>("governor/String ahash", rule),
            keyed::<u64, RandomState>("governor/u64", rule),
            keyed::<u64, ahash::RandomState>("governor/u64 ahash", rule),
        ]
    };
    match case.shape {
        Shape::One => vec![direct()],
        Shape::Keyed => keyed(),
        Shape::Table => vec![by_text(rule)],
        Shape::HotKey => std::iter::once(direct()).chain(keyed()).collect(),
        _ => Vec::new(),
    }
}

/// Keyed by text, as its documentation shows.
pub fn by_text(rule: Rule) -> Candidate {
    keyed::<String, RandomState>("governor/String", rule)
}

fn keyed<K, S>(name: &'static str, rule: Rule) -> Candidate
where
    K: Key,
    S: BuildHasher + Default + Clone + Send + Sync + 'static,
{
    Candidate::asked(
        name,
        move || RateLimiter::dashmap_with_hasher(quota(rule), S::default()),
        |limiter: &RateLimiter<K, DashMapStateStore<K, S>, DefaultClock>, ask| {
            limiter.check_key(K::of(ask)).is_ok()
        },
    )
}

fn quota(rule: Rule) -> Quota {
    let burst = u32::try_from(rule.capacity).ok().and_then(NonZeroU32::new);
    Quota::with_period(rule.every)
        .unwrap_or(Quota::per_second(NonZeroU32::MIN))
        .allow_burst(burst.unwrap_or(NonZeroU32::MAX))
}
