//! Layers over a store: each is a struct over an inner store and adds one concern.
//!
//! From the outside in: [`Fallback`] decides without the store, [`Denials`] repeats the store's latest denials,
//! [`Leases`] spends units that were taken ahead, [`AcrossSlots`] asks several slots for one request, and [`Carry`]
//! carries units to a store that lost them.

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
            rest: &$crate::store::Unspent<$crate::store::KeyAsk>,
            node: u64,
        ) -> Result<Option<$crate::store::ReturnReply>, $crate::store::StoreError> {
            self.inner.give_back_lease(rest, node).await
        }
    };
    (@store) => {
        fn host(&self) -> &$crate::store::Host {
            self.inner.host()
        }

        async fn record(
            &self,
            name: &[u8],
            verb: $crate::store::RecordVerb<'_>,
        ) -> Result<$crate::store::RecordReply, $crate::store::StoreError> {
            self.inner.record(name, verb).await
        }

        async fn fit(&self) {
            self.inner.fit().await;
        }

        async fn lost(&self) {
            self.inner.lost().await;
        }

        fn slot(&self, ask: &$crate::store::KeyAsk) -> Option<u16> {
            self.inner.slot(ask)
        }

        fn can_hold(&self, rule: &tidegate_core::Rule) -> bool {
            self.inner.can_hold(rule)
        }

        fn fits(
            &self,
            policy: &$crate::rules::Policy,
        ) -> Result<(), $crate::rules::PolicyErrors> {
            self.inner.fits(policy)
        }

        fn attach(&self, hooks: $crate::store::Hooks) {
            self.inner.attach(hooks);
        }

        async fn leave(&self) -> Result<(), $crate::store::StoreError> {
            self.inner.leave().await
        }
    };
    (@counts) => {
        fn counts(&self) -> $crate::store::StoreCounts {
            self.inner.counts()
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
    (@ahead) => {
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

        fn superseded(&self, changed: &[$crate::step::Lineage]) {
            self.inner.superseded(changed);
        }

        async fn end(&self) {
            self.inner.end().await;
        }
    };
}

mod across_slots;
mod carry;
mod denials;
mod fallback;
mod leases;
mod recent;

use std::sync::Arc;

use tidegate_core::Micros;

use crate::inline_list::InlineList;
use crate::step::{Decided, Lineage};
use crate::store::{Generation, KeyAsk, StepArgs, StepReply, Store};
pub(crate) use across_slots::AcrossSlots;
pub(crate) use carry::Carry;
pub(crate) use denials::{DenialMemory, Denials, OnDenied};
pub(crate) use fallback::{Fallback, Local};
pub(crate) use leases::{Handles, Leases, Lost, UntilDropped};

/// A layer that decides some requests without the store in it, or the innermost such store.
pub(crate) trait Layer: Store {
    /// Returns the decisions of limiters that units taken ahead cover now, and that take nothing.
    fn covered(&self, _asks: &[KeyAsk]) -> InlineList<Option<Decided>> {
        InlineList::new()
    }

    /// Returns whether units of a limiter are taken ahead. Such a limiter opens no reservation.
    fn has_leases(&self, _ask: &KeyAsk) -> bool {
        false
    }

    /// Returns how long this node can still spend units of a limiter that it took ahead; `None` if it has none.
    fn lasts(&self, _ask: &KeyAsk) -> Option<Micros> {
        None
    }

    /// Returns whether [`Layer::step_now`] may decide a request.
    fn decides_now(&self) -> bool {
        false
    }

    /// Decides a request if the store need not be asked; returns `None`, and takes nothing, if it must be.
    fn step_now(&self, _asks: &[KeyAsk], _args: StepArgs<'_>) -> Option<StepReply> {
        None
    }

    /// Notes that these rules have other values, or none: this store is under an older policy by now.
    fn superseded(&self, _changed: &[Lineage]) {}

    /// Gives back the units that this node took ahead, and takes no more.
    fn end(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A store and the layers over it, from the outside in.
pub(crate) type Tower<S> = Fallback<Denials<Leases<AcrossSlots<Carry<S>>>>>;

/// The parts of a tower besides the store.
pub(crate) struct LayerParts {
    /// The limiters of this process.
    pub(crate) local: Arc<Local>,
    /// `None` if the settings turn it off.
    pub(crate) denials: Option<Arc<DenialMemory>>,
    pub(crate) on_denied: OnDenied,
    /// The number of nodes that share the store, until more is known.
    pub(crate) nodes: u64,
    pub(crate) handles: Handles,
}

/// Puts the layers over a store. No other place says in which order.
pub(crate) fn tower_over<S: Store>(
    store: S,
    generation: &Arc<Generation>,
    parts: LayerParts,
) -> Tower<S> {
    let LayerParts { local, denials, on_denied, nodes, handles } = parts;
    let carry = Carry::new(store, Arc::clone(generation), Arc::clone(&handles.report));
    let across_slots = AcrossSlots::new(carry, Arc::clone(generation));
    let leases = Leases::new(across_slots, generation, nodes, handles);
    let denials = Denials::new(leases, Arc::clone(generation), denials, on_denied);
    Fallback::new(denials, Arc::clone(generation), local)
}

#[cfg(test)]
pub(crate) mod sim;
