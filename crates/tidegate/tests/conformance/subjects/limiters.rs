//! A limiter without a key, and limiters by key, packed and sharded.

use std::time::Duration;
use tidegate::{
    Clock, Decision, KeyedLimiter, Limiter, ManualClock, OnExcess, OnFull, Spec, Timer,
};

use super::{Capped, InMemory, MANY, Settle, Subject, Turn, Waiting, in_memory};
use crate::packed::Unsteady;

/// A limiter, whose calls wait among at most so many.
pub(crate) struct Bounded<L>(pub(crate) L, pub(crate) usize);

/// A limiter without a key: every key uses it.
pub(crate) struct Single;

impl InMemory for Single {
    fn by(&self, clock: &ManualClock, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_> {
        let limiter = Limiter::with_clock(spec, clock.clone()).unwrap();
        Box::new(Bounded(limiter, max_waiters))
    }

    fn has_initial(&self) -> bool {
        true
    }
}

in_memory!(Single);

impl<C: Clock> Subject for Bounded<Limiter<C>> {
    fn keys(&self) -> &'static [&'static str] {
        &["the only one"]
    }

    fn check(&self, _key: &str, cost: u64) -> Decision {
        self.0.check(cost)
    }

    fn admits(&self, _key: &str, cost: u64) -> bool {
        self.0.admits(cost)
    }

    fn peek(&self, _key: &str, cost: u64) -> Decision {
        self.0.peek(cost)
    }

    fn refund(&self, _key: &str, units: u64) -> Decision {
        self.0.refund(units)
    }

    fn reserve<'s>(&'s self, _key: &'s str, units: u64) -> Result<Settle<'s>, Decision> {
        let reserved = self.0.reserve(units)?;
        Ok(Box::new(move |actual| (self.0.settle(reserved, actual), None)))
    }

    fn reset(&self, _key: &str) {
        self.0.reset();
    }
}

impl<C: Timer> Waiting for Bounded<Limiter<C>> {
    fn acquire<'s>(&'s self, _key: &'s str, cost: u64, max_wait: Duration) -> Turn<'s> {
        Box::pin(self.0.acquire(cost, OnExcess::Wait { wait: max_wait, max_waiters: self.1 }))
    }

    fn change(&self, spec: Spec) {
        self.0.amend(spec).unwrap();
    }

    fn waiting(&self, _key: &str) -> usize {
        self.0.waiting()
    }
}

/// Limiters by key. With a clock that may step back they are kept in shards, otherwise packed if possible.
pub(crate) enum Keyed {
    Packed,
    Sharded,
}

impl InMemory for Keyed {
    fn by(&self, clock: &ManualClock, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_> {
        let clock = clock.clone();
        match self {
            Self::Packed => {
                let limiter = KeyedLimiter::with_clock(spec, clock).unwrap();
                Box::new(Bounded(limiter, max_waiters))
            }
            Self::Sharded => {
                let limiter = KeyedLimiter::with_clock(spec, Unsteady(clock)).unwrap();
                Box::new(Bounded(limiter, max_waiters))
            }
        }
    }
}

in_memory!(Keyed);

impl Capped for Keyed {
    fn capped(&self, spec: Spec, max_keys: usize, on_full: OnFull) -> Box<dyn Subject + '_> {
        Box::new(Bounded(KeyedLimiter::new(spec).unwrap().with_max_keys(max_keys, on_full), MANY))
    }
}

impl<C: Clock> Subject for Bounded<KeyedLimiter<C>> {
    fn check(&self, key: &str, cost: u64) -> Decision {
        self.0.check(key, cost)
    }

    fn admits(&self, key: &str, cost: u64) -> bool {
        self.0.admits(key, cost)
    }

    fn peek(&self, key: &str, cost: u64) -> Decision {
        self.0.peek(key, cost)
    }

    fn refund(&self, key: &str, units: u64) -> Decision {
        self.0.refund(key, units)
    }

    fn reserve<'s>(&'s self, key: &'s str, units: u64) -> Result<Settle<'s>, Decision> {
        let reserved = self.0.reserve(key, units)?;
        Ok(Box::new(move |actual| (self.0.settle(key, reserved, actual), None)))
    }

    fn reset(&self, key: &str) {
        self.0.reset(key);
    }
}

impl<C: Timer> Waiting for Bounded<KeyedLimiter<C>> {
    fn acquire<'s>(&'s self, key: &'s str, cost: u64, max_wait: Duration) -> Turn<'s> {
        Box::pin(self.0.acquire(key, cost, OnExcess::Wait { wait: max_wait, max_waiters: self.1 }))
    }

    fn change(&self, spec: Spec) {
        self.0.amend(spec).unwrap();
    }

    fn waiting(&self, key: &str) -> usize {
        self.0.waiting(key)
    }
}
