//! throttlecrab 0.4: GCRA over a hash map of `String` keys (`PeriodicStore`, the store of its
//! README; `ahash`, its default), the time handed in as `SystemTime`.
//!
//! Its limiter needs `&mut self`. `owned` takes the lock once for a whole batch, as a task that
//! owns the limiter would; `Mutex` locks for each decision, as its documentation says to share it.
//! It is asked by `&str`; its store allocates a new `String` at every allowed decision.

use super::{Candidate, Subject};
use crate::cases::{Case, Rule, Shape};
use crate::pace::Pace;
use crate::workload::Ask;
use ::throttlecrab::{PeriodicStore, RateLimiter};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Keyed, alone and shared.
pub fn offers(case: &Case) -> Vec<Candidate> {
    let rule = case.rule;
    let shared =
        Candidate::new("throttlecrab/String in Mutex", move || Box::new(Shared::new(rule)));
    let owned =
        Candidate::new("throttlecrab/String owned", move || Box::new(Owned(Shared::new(rule))));
    match case.shape {
        Shape::Keyed => vec![owned, shared],
        Shape::HotKey => vec![shared],
        _ => Vec::new(),
    }
}

/// Its figures: `count` per `period` seconds, `burst` at once.
#[derive(Clone, Copy)]
struct Measured {
    burst: i64,
    count: i64,
    period_s: i64,
}

impl Measured {
    fn of(rule: Rule) -> Self {
        let per_second = Duration::from_secs(1).as_nanos() / rule.every.as_nanos().max(1);
        Self {
            burst: i64::try_from(rule.capacity).unwrap_or(i64::MAX),
            count: i64::try_from(per_second).unwrap_or(i64::MAX).max(1),
            period_s: i64::try_from(rule.every.as_secs()).unwrap_or(i64::MAX).max(1),
        }
    }

    fn ask(self, limiter: &mut RateLimiter<PeriodicStore>, key: &str) -> bool {
        let now = SystemTime::now();
        let decision = limiter.rate_limit(key, self.burst, self.count, self.period_s, 1, now);
        decision.is_ok_and(|(allowed, _)| allowed)
    }
}

struct Shared {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    values: Measured,
}

impl Shared {
    fn new(rule: Rule) -> Self {
        let limiter = Mutex::new(RateLimiter::new(PeriodicStore::new()));
        Self { limiter, values: Measured::of(rule) }
    }
}

impl Subject for Shared {
    fn decide(&self, ask: &Ask) -> bool {
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        self.values.ask(&mut limiter, &ask.key)
    }
}

struct Owned(Shared);

impl Subject for Owned {
    fn decide(&self, ask: &Ask) -> bool {
        self.0.decide(ask)
    }

    fn run(&self, asks: &[Ask], pace: Pace) -> u64 {
        let mut limiter = self.0.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        pace.count(asks, |ask| self.0.values.ask(&mut limiter, &ask.key))
    }
}
