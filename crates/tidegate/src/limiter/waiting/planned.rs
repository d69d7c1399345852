//! Waiting for the limiter of a key under its plan, or under figures that a call brings along.

use std::sync::{Mutex, PoisonError};

use tidegate_core::{Decision, Micros};

use super::super::{Plan, PlannedLimiter, Under};
use crate::clock::{Clock, Park, Timer};
use crate::key::Fingerprint;
use crate::step::{Done, One, Step, decision_of};
use crate::store::memory::Preview;
#[cfg(feature = "tower")]
use crate::wait::InProcess as _;
use crate::wait::{Patience, Single, Source, step_behind, wait, wait_blocking};

impl<C: Clock> PlannedLimiter<C> {
    /// Takes `cost` units of the key's limiter if they fit now and nobody waits for it. The same as
    /// [`PlannedLimiter::check`]: no verb overtakes those who wait.
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

    fn waitable<S: Source>(
        &self,
        fingerprint: Fingerprint,
        source: S,
        cost: u64,
        wait: Micros,
    ) -> Single<'_, Fingerprint, S> {
        let patience = Patience { wait, max_waiters: self.max_waiters };
        Single::new(&self.queues, fingerprint, source, cost, patience)
    }

    fn door_by_plan<'a>(
        &'a self,
        plan: &'a LookedUp,
        key: &[u8],
        cost: u64,
        wait: Micros,
    ) -> Single<'a, Fingerprint, ByPlan<'a, C>> {
        let source = ByPlan { all: self, key: key.into(), plan };
        self.waitable(self.seed.of_bytes(key), source, cost, wait)
    }
}

impl<C: Timer> PlannedLimiter<C> {
    /// Waits until `cost` units of the key's limiter fit, takes them, and resolves when the work may
    /// run: what [`Limiter::acquire`](crate::Limiter::acquire) does, with a queue for each key. Its plan is
    /// looked up again whenever its turn may have come; see [`PlannedLimiter::plan_changed`].
    pub async fn acquire(&self, key: impl AsRef<[u8]>, cost: u64, max_wait: Micros) -> Decision {
        let plan = LookedUp::default();
        let waitable = self.door_by_plan(&plan, key.as_ref(), cost, max_wait);
        // Not kept while it waits: the future is `Send` whatever the key is.
        drop(key);
        decision_of(&wait(waitable, &self.clock).await)
    }

    /// The same with all that came of it, and the plan under which it did.
    #[cfg(feature = "tower")]
    pub(crate) async fn acquire_done(
        &self,
        key: &[u8],
        cost: u64,
        max_wait: Micros,
    ) -> (Done, Plan) {
        let plan = LookedUp::default();
        let waitable = self.door_by_plan(&plan, key, cost, max_wait);
        let done = wait(waitable, &self.clock).await;
        (done, plan.of(self, key))
    }
}

impl<C: Park> PlannedLimiter<C> {
    /// What [`PlannedLimiter::acquire`] does, by blocking the thread.
    pub fn acquire_blocking(&self, key: impl AsRef<[u8]>, cost: u64, max_wait: Micros) -> Decision {
        let plan = LookedUp::default();
        let waitable = self.door_by_plan(&plan, key.as_ref(), cost, max_wait);
        decision_of(&wait_blocking(waitable, &self.clock))
    }
}

impl<'a, C: Clock> Under<'a, C> {
    /// See [`PlannedLimiter::try_acquire`].
    pub fn try_acquire(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.check(key, cost)
    }

    /// A step of one who does not wait, while others do.
    #[cold]
    pub(crate) fn behind(&self, fingerprint: Fingerprint, cost: u64, step: Step) -> Done {
        step_behind(&self.waitable(fingerprint, cost, Micros::ZERO), step)
    }

    /// One step, whoever waits.
    #[cfg(feature = "tower")]
    pub(crate) fn done_now(&self, fingerprint: Fingerprint, cost: u64, step: Step) -> Done {
        self.waitable(fingerprint, cost, Micros::ZERO).step(step)
    }

    /// Takes `cost` units at once, or is refused: also by those who wait.
    pub(crate) fn take_or_refuse(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
    ) -> Result<Option<One>, Decision> {
        self.waitable(fingerprint, cost, Micros::ZERO).take_or_refuse().map(Some)
    }

    fn waitable(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        wait: Micros,
    ) -> Single<'a, Fingerprint, OfKey<'a, C>> {
        self.all.waitable(fingerprint, OfKey { under: *self, fingerprint }, cost, wait)
    }
}

impl<C: Timer> Under<'_, C> {
    /// See [`PlannedLimiter::acquire`]; who waits does so under these figures, whatever comes.
    pub async fn acquire(self, key: impl AsRef<[u8]>, cost: u64, max_wait: Micros) -> Decision {
        let waitable = self.waitable(self.fingerprint(key.as_ref()), cost, max_wait);
        drop(key);
        decision_of(&wait(waitable, &self.all.clock).await)
    }
}

impl<C: Park> Under<'_, C> {
    /// What [`Under::acquire`] does, by blocking the thread.
    pub fn acquire_blocking(self, key: impl AsRef<[u8]>, cost: u64, max_wait: Micros) -> Decision {
        let waitable = self.waitable(self.fingerprint(key.as_ref()), cost, max_wait);
        decision_of(&wait_blocking(waitable, &self.all.clock))
    }
}

/// The limiter of one key under figures that were brought along.
#[derive(Debug)]
struct OfKey<'a, C> {
    under: Under<'a, C>,
    fingerprint: Fingerprint,
}

impl<C: Clock> Source for OfKey<'_, C> {
    fn one(&self, cost: u64, step: Step) -> One {
        self.under.step_now(self.fingerprint, cost, step)
    }

    fn preview(&self) -> Option<Box<dyn Preview>> {
        self.under.preview_now(self.fingerprint)
    }
}

/// The limiter of one key under the plan it has whenever its turn may have come.
struct ByPlan<'a, C> {
    all: &'a PlannedLimiter<C>,
    key: Box<[u8]>,
    plan: &'a LookedUp,
}

impl<C: Clock> Source for ByPlan<'_, C> {
    fn one(&self, cost: u64, step: Step) -> One {
        let plan = self.plan.of(self.all, &self.key);
        let under = self.all.under_plan(&plan);
        OfKey { fingerprint: under.fingerprint(&self.key), under }.one(cost, step)
    }

    fn preview(&self) -> Option<Box<dyn Preview>> {
        let plan = self.plan.of(self.all, &self.key);
        let under = self.all.under_plan(&plan);
        under.preview_now(under.fingerprint(&self.key))
    }

    fn renew(&self) {
        self.plan.set(None);
    }
}

/// The plan of one who may wait, looked up once for each time it asks.
#[derive(Default)]
struct LookedUp(Mutex<Option<Plan>>);

impl LookedUp {
    /// The plan; looked up if it was not since it was renewed.
    fn of<C: Clock>(&self, all: &PlannedLimiter<C>, key: &[u8]) -> Plan {
        if let Some(plan) = self.get() {
            return plan;
        }
        let plan = all.plan(key);
        self.set(Some(plan.clone()));
        plan
    }

    fn get(&self) -> Option<Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, plan: Option<Plan>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }
}
