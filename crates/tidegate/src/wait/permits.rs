//! Permits for work in flight, counted by key.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use super::queues::Queues;
use super::sync::{Mutex, MutexGuard};
use crate::key::Fingerprint;

/// The limit, and how many units are out.
#[derive(Debug)]
pub(super) struct Permits {
    counted: Mutex<Counted>,
    pub(super) queues: Queues<Fingerprint>,
}

#[derive(Debug)]
struct Counted {
    limit: u64,
    max_waiters: usize,
    /// Nothing for a key of which nothing is out.
    out: HashMap<Fingerprint, u64>,
}

/// Leave to run, for as long as it is kept: dropped, also by a panic or by a task that is cancelled,
/// it gives its units back and wakes who waits first.
///
/// It owns what it needs and can be moved to another thread or task. One that is forgotten
/// ([`std::mem::forget`]) never comes back.
#[derive(Debug)]
#[must_use = "the work may run only while this is kept"]
pub struct Permit {
    permits: Arc<Permits>,
    key: Fingerprint,
    units: u64,
}

impl Permit {
    /// How many units it holds.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.give_back(self.key, self.units);
    }
}

impl Permits {
    pub(super) fn new(limit: u64, max_waiters: usize) -> Self {
        let counted = Counted { limit, max_waiters, out: HashMap::new() };
        Self { counted: Mutex::new(counted), queues: Queues::new() }
    }

    pub(super) fn set_max_waiters(&self, max_waiters: usize) {
        self.counted().max_waiters = max_waiters;
    }

    pub(super) fn max_waiters(&self) -> usize {
        self.counted().max_waiters
    }

    pub(super) fn limit(&self) -> u64 {
        self.counted().limit
    }

    /// Changes the limit. Of a lower one no more are let in until enough have come back.
    pub(super) fn set_limit(&self, limit: u64) {
        self.counted().limit = limit;
        self.queues.wake_all();
    }

    pub(super) fn in_flight(&self, key: Fingerprint) -> u64 {
        self.counted().out.get(&key).copied().unwrap_or(0)
    }

    pub(super) fn available(&self, key: Fingerprint) -> u64 {
        self.limit().saturating_sub(self.in_flight(key))
    }

    pub(super) fn keys(&self) -> usize {
        self.counted().out.len()
    }

    pub(super) fn waiting(&self, key: Fingerprint) -> usize {
        self.queues.len(&key)
    }

    /// A permit, if it is there and nobody waits for one.
    pub(super) fn try_acquire(self: &Arc<Self>, key: Fingerprint, units: u64) -> Option<Permit> {
        if units == 0 || self.queues.is_idle(&key) {
            return self.take(key, units);
        }
        let held = self.queues.lock();
        (held.len(&key) == 0).then(|| self.take(key, units)).flatten()
    }

    /// A permit, if it is there, whoever waits for one.
    pub(super) fn take(self: &Arc<Self>, key: Fingerprint, units: u64) -> Option<Permit> {
        self.counted().take(key, units).then(|| Permit { permits: Arc::clone(self), key, units })
    }

    fn give_back(&self, key: Fingerprint, units: u64) {
        if units > 0 {
            self.counted().give_back(key, units);
            self.queues.wake(&key);
        }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn take(&mut self, key: Fingerprint, units: u64) -> bool {
        if units == 0 {
            return true;
        }
        let out = self.out.get(&key).copied().unwrap_or(0);
        match out.checked_add(units).filter(|sum| *sum <= self.limit) {
            Some(sum) => {
                self.out.insert(key, sum);
                true
            }
            None => false,
        }
    }

    fn give_back(&mut self, key: Fingerprint, units: u64) {
        if let Some(out) = self.out.get_mut(&key) {
            *out = out.saturating_sub(units);
            if *out == 0 {
                self.out.remove(&key);
            }
        }
    }
}
