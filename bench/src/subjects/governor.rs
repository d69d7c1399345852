//! governor 0.10: GCRA in one atomic word; keyed, a `DashMap` of such words; `quanta` as clock.
//!
//! Asked by `check` and `check_key`, with the stores and the clock of its default constructors.
//! `check_key` borrows the key and clones it (a `String` allocates) only at its first request.

use super::key::Key;
use super::{Candidate, Subject};
use crate::cases::{Case, Rule, Shape};
use crate::workload::Ask;
use ::governor::clock::DefaultClock;
use ::governor::state::keyed::DashMapStateStore;
use ::governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;

/// Direct, and keyed by either kind of key under either hasher.
pub fn offers(case: &Case) -> Vec<Candidate> {
    match case.shape {
        Shape::One => vec![direct(case.rule)],
        Shape::Keyed => keyed(case.rule),
        Shape::TableOnTheWay => vec![string(case.rule)],
        Shape::HotKey => std::iter::once(direct(case.rule)).chain(keyed(case.rule)).collect(),
        _ => Vec::new(),
    }
}

fn direct(rule: Rule) -> Candidate {
    Candidate::new("governor/direct", rule, |rule| Direct(RateLimiter::direct(quota(rule))))
}

fn keyed(rule: Rule) -> Vec<Candidate> {
    vec![
        string(rule),
        Candidate::new("governor/String ahash", rule, Keyed::<String, ahash::RandomState>::new),
        Candidate::new("governor/u64", rule, Keyed::<u64, RandomState>::new),
        Candidate::new("governor/u64 ahash", rule, Keyed::<u64, ahash::RandomState>::new),
    ]
}

/// Keyed by text, as its documentation shows.
pub fn string(rule: Rule) -> Candidate {
    Candidate::new("governor/String", rule, Keyed::<String, RandomState>::new)
}

fn quota(rule: Rule) -> Quota {
    let burst = u32::try_from(rule.capacity).ok().and_then(NonZeroU32::new);
    Quota::with_period(rule.every)
        .unwrap_or(Quota::per_second(NonZeroU32::MIN))
        .allow_burst(burst.unwrap_or(NonZeroU32::MAX))
}

struct Direct(DefaultDirectRateLimiter);

impl Subject for Direct {
    fn decide(&self, _: &Ask) -> bool {
        self.0.check().is_ok()
    }
}

struct Keyed<K: Key, S: BuildHasher + Clone>(RateLimiter<K, DashMapStateStore<K, S>, DefaultClock>);

impl<K: Key, S: BuildHasher + Default + Clone> Keyed<K, S> {
    fn new(rule: Rule) -> Self {
        Self(RateLimiter::dashmap_with_hasher(quota(rule), S::default()))
    }
}

impl<K, S> Subject for Keyed<K, S>
where
    K: Key,
    S: BuildHasher + Clone + Send + Sync,
{
    fn decide(&self, ask: &Ask) -> bool {
        self.0.check_key(K::of(ask)).is_ok()
    }
}
