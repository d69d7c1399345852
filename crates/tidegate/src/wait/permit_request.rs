//! A request for a permit, as a waitable.

use std::sync::Arc;

use tidegate_core::Micros;

use super::permits::{Permit, Permits};
use super::queues::Queues;
use super::waitable::{InProcess, Patience, QueuedLimiter, Waitable};
use super::waiter::Waiter;
use crate::clock::{Clock, Park, Timer};
use crate::key::Fingerprint;
use crate::step::{Decided, Done, Step};
use crate::store::memory::Preview;

/// A request for units of one key.
#[derive(Debug)]
pub(super) struct PermitRequest<'a, C> {
    permits: &'a Arc<Permits>,
    clock: &'a C,
    key: Fingerprint,
    units: u64,
    /// `None` if it takes nothing.
    stop: Option<QueuedLimiter<Fingerprint>>,
}

impl<'a, C: Clock> PermitRequest<'a, C> {
    pub(super) fn new(
        permits: &'a Arc<Permits>,
        clock: &'a C,
        key: Fingerprint,
        units: u64,
        patience: Patience,
    ) -> Self {
        let stop = QueuedLimiter { queue: key, cost: units, patience, place: 0 };
        Self { permits, clock, key, units, stop: (units > 0).then_some(stop) }
    }

    /// Waits as a task. No await lies between the step that takes the units and the permit, so
    /// dropping the future loses none.
    pub(super) async fn wait(self) -> Option<Permit>
    where
        C: Timer,
    {
        let Self { permits, clock, key, units, .. } = self;
        let done = Waiter::new(self).decided(clock).await;
        done.allowed.then(|| permits.permit(key, units))
    }

    /// Waits by blocking the thread.
    pub(super) fn wait_blocking(self) -> Option<Permit>
    where
        C: Park,
    {
        let Self { permits, clock, key, units, .. } = self;
        let done = Waiter::new(self).decided_blocking(clock);
        done.allowed.then(|| permits.permit(key, units))
    }
}

impl<C: Clock> Waitable for PermitRequest<'_, C> {
    type Key = Fingerprint;

    fn queues(&self) -> &Queues<Fingerprint> {
        &self.permits.queues
    }

    fn stops(&self) -> &[QueuedLimiter<Fingerprint>] {
        self.stop.as_slice()
    }

    fn preview(&self, _stop: &QueuedLimiter<Fingerprint>) -> Option<Box<dyn Preview>> {
        None
    }

    fn delay(&self, _done: &Done) -> Micros {
        Micros::ZERO
    }

    fn delay_is_waiting(&self) -> bool {
        false
    }

    fn is_only_woken(&self) -> bool {
        true
    }
}

impl<C: Clock> InProcess for PermitRequest<'_, C> {
    fn step(&self, step: Step) -> Done {
        let decision = self.permits.decide(self.key, self.units, step == Step::Ask);
        let allowed = decision.is_allowed();
        let decisions = [Decided::of(decision, false, false)].into_iter().collect();
        Done { allowed, at: self.clock.now(), repeated: false, decisions }
    }
}
