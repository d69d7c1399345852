//! Permits for work in flight, counted by key: the state under [`Concurrency`](super::Concurrency), and its
//! waitable.
//!
//! The algorithm `concurrency` of a rule is another thing: it has permits with a life, in any store.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use tidegate_core::{Decision, Micros, Outcome};

use super::call::{LimiterCall, LimiterSource};
use super::queues::Queues;
use super::waitable::Patience;
use crate::clock::{Clock, Park, Timer};
use crate::key::Fingerprint;
use crate::step::{One, Step};
use crate::store::memory::Preview;
use crate::sync::{Mutex, MutexGuard};

/// The limit, and the units in flight.
#[derive(Debug)]
pub(super) struct Permits {
    counted: Mutex<PermitCounts>,
    pub(super) queues: Queues<Fingerprint>,
}

#[derive(Debug)]
pub(super) struct PermitCounts {
    pub(super) limit: u64,
    /// Units in flight by key; a key without any has no entry.
    pub(super) out: HashMap<Fingerprint, u64>,
}

/// Permission to run, for as long as it is kept. When dropped, also by a panic or a cancelled task,
/// it gives its units back and wakes the first waiter.
///
/// It owns everything it needs and can be moved to another thread or task. A permit that is
/// forgotten ([`std::mem::forget`]) is never given back.
///
/// ```
/// use tidegate::Concurrency;
///
/// let exports = Concurrency::new(2);
/// let permit = exports.try_acquire(1);
/// assert_eq!((permit.is_some(), exports.in_flight()), (true, 1));
/// drop(permit);
/// assert_eq!(exports.in_flight(), 0);
/// ```
#[derive(Debug)]
#[must_use = "the work may run only while this is kept"]
pub struct Permit {
    permits: Arc<Permits>,
    key: Fingerprint,
    units: u64,
}

impl Permit {
    /// The units that it holds.
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
    pub(super) fn new(limit: u64) -> Self {
        let counted = PermitCounts { limit, out: HashMap::new() };
        Self { counted: Mutex::new(counted), queues: Queues::new() }
    }

    /// Changes the limit. Under a lower one nothing is admitted until enough units have come back.
    pub(super) fn set_limit(&self, limit: u64) {
        // First changed, then woken, as when units come back.
        self.counted().limit = limit;
        self.queues.wake_all();
    }

    /// Returns a permit if enough units are free and no caller waits for them.
    pub(super) fn try_acquire(self: &Arc<Self>, key: Fingerprint, units: u64) -> Option<Permit> {
        // Locked until the units are taken, so that no request joins the queue in between.
        let held = (units > 0 && !self.queues.is_idle(&key)).then(|| self.queues.lock());
        if held.as_ref().is_some_and(|held| held.len(&key) > 0) {
            return None;
        }
        self.counted().take(key, units).then(|| self.permit(key, units))
    }

    /// Returns whether enough units are free, and takes them if `takes`, also if others wait. The
    /// time of a refusal is unknown, because it is not known when units come back.
    pub(super) fn decide(&self, key: Fingerprint, units: u64, takes: bool) -> Decision {
        let mut counted = self.counted();
        let limit = counted.limit;
        let remaining = counted.available(key);
        let fits = if takes { counted.take(key, units) } else { units <= remaining };
        // Only a request above the limit is never admitted: units that are out come back some time.
        let outcome = if fits {
            Outcome::Allow { delay: Micros::ZERO }
        } else if units > limit {
            Outcome::Never
        } else {
            Outcome::Deny { retry_after: Micros::ZERO }
        };
        Decision { outcome, limit, remaining, reset_after: Micros::ZERO }
    }

    /// The permit for units that were already taken.
    pub(super) fn permit(self: &Arc<Self>, key: Fingerprint, units: u64) -> Permit {
        Permit { permits: Arc::clone(self), key, units }
    }

    fn give_back(&self, key: Fingerprint, units: u64) {
        if units > 0 {
            // First given back, then woken: an attempt in between finds the units by itself.
            self.counted().give_back(key, units);
            self.queues.wake(&key);
        }
    }

    /// Locks the counts.
    pub(super) fn counted(&self) -> MutexGuard<'_, PermitCounts> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PermitCounts {
    pub(super) fn in_flight(&self, key: Fingerprint) -> u64 {
        self.out.get(&key).copied().unwrap_or(0)
    }

    pub(super) fn available(&self, key: Fingerprint) -> u64 {
        // More units may be out than a lowered limit allows.
        self.limit.saturating_sub(self.in_flight(key))
    }

    fn take(&mut self, key: Fingerprint, units: u64) -> bool {
        let fits = units <= self.available(key);
        if fits && units > 0 {
            *self.out.entry(key).or_default() += units;
        }
        fits
    }

    fn give_back(&mut self, key: Fingerprint, units: u64) {
        if let Some(out) = self.out.get_mut(&key) {
            *out = out.saturating_sub(units);
            // A key without work in flight takes no memory.
            if *out == 0 {
                self.out.remove(&key);
            }
        }
    }
}

/// A request for permits of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct PermitRequest<'a, C> {
    pub(super) permits: &'a Arc<Permits>,
    pub(super) clock: &'a C,
    pub(super) key: Fingerprint,
    pub(super) units: u64,
}

impl<C: Clock> PermitRequest<'_, C> {
    pub(super) fn call(&self) -> LimiterCall<'_, Fingerprint, &Self> {
        LimiterCall::new(&self.permits.queues, self.key, self, self.units)
    }

    /// The permit, if the units were taken.
    fn permit(&self, one: &One) -> Option<Permit> {
        one.verdict.is_allowed().then(|| self.permits.permit(self.key, self.units))
    }

    /// Waits as a task.
    pub(super) async fn wait(self, patience: Patience) -> Option<Permit>
    where
        C: Timer,
    {
        self.permit(&self.call().wait(patience, self.clock).await)
    }

    /// Waits by blocking the thread.
    pub(super) fn wait_blocking(self, patience: Patience) -> Option<Permit>
    where
        C: Park,
    {
        self.permit(&self.call().wait_blocking(patience, self.clock))
    }
}

impl<C: Clock> LimiterSource for &PermitRequest<'_, C> {
    fn one(&self, cost: u64, step: Step) -> One {
        let decision = self.permits.decide(self.key, cost, step == Step::Ask);
        One::of(decision.verdict(), decision, self.clock.now())
    }

    /// It is not known when permits come back.
    fn preview(&self) -> Option<Box<dyn Preview>> {
        None
    }

    fn is_only_woken(&self) -> bool {
        true
    }
}
