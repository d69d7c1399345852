//! A limiter without a key, and limiters by key, packed and sharded.

use std::time::Duration;
use tidegate::{Clock, Decision, KeyedLimiter, Limiter, ManualClock, OnFull, Spec, Timer};

use super::{Capped, InMemory, Settle, Subject, Turn, Waiting, in_memory};
use crate::clock::Unsteady;

/// A limiter without a key: every key uses it.
pub(crate) struct Single;

impl InMemory for Single {
    fn by(&self, clock: &ManualClock, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_> {
        let limiter = Limiter::with_clock(spec, clock.clone()).unwrap();
        Box::new(limiter.with_max_waiters(max_waiters))
    }

    fn has_initial(&self) -> bool {
        true
    }
}

in_memory!(Single);

impl<C: Clock> Subject for Limiter<C> {
    fn keys(&self) -> &'static [&'static str] {
        &["the only one"]
    }

    fn check(&self, _key: &str, cost: u64) -> Decision {
        self.check(cost)
    }

    fn admits(&self, _key: &str, cost: u64) -> bool {
        self.admits(cost)
    }

    fn peek(&self, _key: &str, cost: u64) -> Decision {
        self.peek(cost)
    }

    fn refund(&self, _key: &str, units: u64) -> Decision {
        self.refund(units)
    }

    fn reserve<'s>(&'s self, _key: &'s str, units: u64) -> Result<Settle<'s>, Decision> {
        let reserved = self.reserve(units)?;
        Ok(Box::new(move |actual| self.settle(reserved, actual)))
    }

    fn reset(&self, _key: &str) {
        self.reset();
    }

    fn available(&self, _key: &str) -> u64 {
        self.peek(1).remaining
    }
}

impl<C: Timer> Waiting for Limiter<C> {
    fn acquire<'s>(&'s self, _key: &'s str, cost: u64, max_wait: Duration) -> Turn<'s> {
        Box::pin(self.acquire(cost, max_wait))
    }

    fn waiting(&self, _key: &str) -> usize {
        self.waiting()
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
                Box::new(limiter.with_max_waiters(max_waiters))
            }
            Self::Sharded => {
                let limiter = KeyedLimiter::with_clock(spec, Unsteady(clock)).unwrap();
                Box::new(limiter.with_max_waiters(max_waiters))
            }
        }
    }
}

in_memory!(Keyed);

impl Capped for Keyed {
    fn capped(&self, spec: Spec, max_keys: usize, on_full: OnFull) -> Box<dyn Subject + '_> {
        Box::new(KeyedLimiter::new(spec).unwrap().with_max_keys(max_keys, on_full))
    }
}

impl<C: Clock> Subject for KeyedLimiter<C> {
    fn check(&self, key: &str, cost: u64) -> Decision {
        self.check(key, cost)
    }

    fn admits(&self, key: &str, cost: u64) -> bool {
        self.admits(key, cost)
    }

    fn peek(&self, key: &str, cost: u64) -> Decision {
        self.peek(key, cost)
    }

    fn refund(&self, key: &str, units: u64) -> Decision {
        self.refund(key, units)
    }

    fn reserve<'s>(&'s self, key: &'s str, units: u64) -> Result<Settle<'s>, Decision> {
        let reserved = self.reserve(key, units)?;
        Ok(Box::new(move |actual| self.settle(key, reserved, actual)))
    }

    fn reset(&self, key: &str) {
        self.reset(key);
    }

    fn available(&self, key: &str) -> u64 {
        self.peek(key, 1).remaining
    }
}

impl<C: Timer> Waiting for KeyedLimiter<C> {
    fn acquire<'s>(&'s self, key: &'s str, cost: u64, max_wait: Duration) -> Turn<'s> {
        Box::pin(self.acquire(key, cost, max_wait))
    }

    fn waiting(&self, key: &str) -> usize {
        self.waiting(key)
    }
}
