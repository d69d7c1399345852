//! Waiting for the limiter of a key.

use tidegate_core::{Decision, Micros};

use super::super::KeyedLimiter;
use crate::clock::{Clock, Park, Timer};
use crate::key::Fingerprint;
use crate::step::{Done, One, Step, decision_of, unlimited_at};
use crate::store::memory::Preview;
use crate::wait::{Patience, Single, Source, step_behind, wait, wait_blocking};

impl<C: Clock> KeyedLimiter<C> {
    /// Takes `cost` units of the key's limiter if they fit now and nobody waits for it. The same as
    /// [`KeyedLimiter::check`]: no verb overtakes those who wait.
    pub fn try_acquire(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.check(key, cost)
    }

    /// Lets at most `max_waiters` wait at once for each key (1,024 unless said); who comes when so
    /// many wait is refused at once. With 0 nobody waits.
    #[must_use]
    pub const fn with_max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }

    /// How many wait for the key's limiter at this moment.
    #[must_use]
    pub fn waiting(&self, key: impl AsRef<[u8]>) -> usize {
        self.queues.len(&self.seed.of_bytes(key.as_ref()))
    }

    /// A step of one who does not wait, while others do.
    #[cold]
    pub(crate) fn step_behind(&self, fingerprint: Fingerprint, cost: u64, step: Step) -> Decision {
        decision_of(&self.behind(fingerprint, cost, step))
    }

    /// The same with all that came of it.
    #[cold]
    pub(crate) fn behind(&self, fingerprint: Fingerprint, cost: u64, step: Step) -> Done {
        step_behind(&self.waitable(fingerprint, cost, Micros::ZERO), step)
    }

    /// Takes `cost` units at once, or is refused: also by those who wait.
    pub(crate) fn take_or_refuse(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
    ) -> Result<Option<One>, Decision> {
        if self.queues.is_idle(&fingerprint) {
            return Ok(self.step_now(fingerprint, cost, Step::Ask));
        }
        self.waitable(fingerprint, cost, Micros::ZERO).take_or_refuse().map(Some)
    }

    /// The same without figures.
    #[cold]
    pub(crate) fn admits_behind(&self, fingerprint: Fingerprint, cost: u64) -> bool {
        self.behind(fingerprint, cost, Step::Decide).allowed
    }

    fn waitable(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        wait: Micros,
    ) -> Single<'_, Fingerprint, OfKey<'_, C>> {
        let patience = Patience { wait, max_waiters: self.max_waiters };
        Single::new(&self.queues, fingerprint, OfKey { all: self, fingerprint }, cost, patience)
    }
}

impl<C: Timer> KeyedLimiter<C> {
    /// Waits until `cost` units of the key's limiter fit, takes them, and resolves when the work may
    /// run: what [`Limiter::acquire`](crate::Limiter::acquire) does, with a queue for each key. Keys
    /// for which there was no room share a limiter, and have queues of their own all the same.
    pub async fn acquire(&self, key: impl AsRef<[u8]>, cost: u64, max_wait: Micros) -> Decision {
        let fingerprint = self.seed.of_bytes(key.as_ref());
        // Not kept while it waits: the future is `Send` whatever the key is.
        drop(key);
        decision_of(&wait(self.waitable(fingerprint, cost, max_wait), &self.clock).await)
    }
}

impl<C: Park> KeyedLimiter<C> {
    /// What [`KeyedLimiter::acquire`] does, by blocking the thread.
    pub fn acquire_blocking(&self, key: impl AsRef<[u8]>, cost: u64, max_wait: Micros) -> Decision {
        let fingerprint = self.seed.of_bytes(key.as_ref());
        decision_of(&wait_blocking(self.waitable(fingerprint, cost, max_wait), &self.clock))
    }
}

/// The limiter of one key.
#[derive(Debug)]
struct OfKey<'a, C> {
    all: &'a KeyedLimiter<C>,
    fingerprint: Fingerprint,
}

impl<C: Clock> Source for OfKey<'_, C> {
    fn one(&self, cost: u64, step: Step) -> One {
        let one = self.all.step_now(self.fingerprint, cost, step);
        one.unwrap_or_else(|| unlimited_at(self.all.clock.now()))
    }

    fn preview(&self) -> Option<Box<dyn Preview>> {
        self.all.preview_now(self.fingerprint)
    }
}
