//! Layers over a store: each is a struct over an inner store and adds one concern.
//!
//! From the outside in: [`Fallback`] decides without the store, [`Denials`] repeats what the store has just denied,
//! [`Leases`] spends units that were taken ahead, and [`AcrossSlots`] asks several slots for one request.

/// Passes the verbs that a layer does not change to the store in it.
macro_rules! pass_inward {
    ($($verb:ident)*) => { $(pass_inward!(@$verb);)* };
    (@undo) => {
        async fn undo(
            &self,
            asks: &[$crate::store::KeyAsk],
            args: $crate::store::StepArgs<'_>,
            reply: &$crate::store::StepReply,
        ) -> $crate::store::StepReply {
            self.inner.undo(asks, args, reply).await
        }
    };
    (@leases) => {
        async fn lease(
            &self,
            ask: &$crate::store::KeyAsk,
            lease: $crate::store::LeaseAsk<'_>,
        ) -> $crate::store::LeaseReply {
            self.inner.lease(ask, lease).await
        }

        async fn give_back_lease(
            &self,
            rest: &$crate::lease::Unspent<$crate::store::KeyAsk>,
            node: u64,
        ) -> Result<
            Option<($crate::lease::GivenBack, $crate::lease::Report)>,
            $crate::store::StoreError,
        > {
            self.inner.give_back_lease(rest, node).await
        }
    };
    (@now) => {
        fn decides_now(&self) -> bool {
            self.inner.decides_now()
        }

        fn step_now(
            &self,
            asks: &[$crate::store::KeyAsk],
            args: $crate::store::StepArgs<'_>,
        ) -> Option<$crate::store::StepReply> {
            self.inner.step_now(asks, args)
        }
    };
    (@spends) => {
        fn covered(
            &self,
            asks: &[$crate::store::KeyAsk],
        ) -> $crate::inline_list::InlineList<Option<$crate::step::Decided>> {
            self.inner.covered(asks)
        }

        fn has_leases(&self, ask: &$crate::store::KeyAsk) -> bool {
            self.inner.has_leases(ask)
        }

        fn lasts(&self, ask: &$crate::store::KeyAsk) -> Option<tidegate_core::Micros> {
            self.inner.lasts(ask)
        }
    };
    (@changes) => {
        fn superseded(&self, changed: &[$crate::step::Lineage]) {
            self.inner.superseded(changed);
        }

        async fn end(&self) {
            self.inner.end().await;
        }
    };
    (@store) => {
        fn spawn<T: Send + 'static>(
            &self,
            work: impl Future<Output = T> + Send + 'static,
        ) -> tokio::task::JoinHandle<T> {
            self.inner.spawn(work)
        }

        fn now(&self) -> tidegate_core::Timestamp {
            self.inner.now()
        }

        fn uptime(&self) -> tidegate_core::Micros {
            self.inner.uptime()
        }

        fn deadline(&self) -> tokio::time::Instant {
            self.inner.deadline()
        }

        async fn fit(&self) {
            self.inner.fit().await;
        }

        fn slot(&self, ask: &$crate::store::KeyAsk) -> Option<u16> {
            self.inner.slot(ask)
        }

        fn can_hold(&self, rule: &tidegate_core::Rule) -> bool {
            self.inner.can_hold(rule)
        }
    };
}

mod across_slots;
mod denials;
mod fallback;
mod leases;
mod recent;

pub(crate) use across_slots::AcrossSlots;
pub(crate) use denials::{DenialMemory, Denials};
pub(crate) use fallback::{Fallback, Local, Share};
pub(crate) use leases::{Handles, Leases, Lost, UntilDropped};
