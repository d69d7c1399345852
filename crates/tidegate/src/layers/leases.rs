//! Leases: units that this node takes ahead and spends without asking the store.

mod give_back;
mod spend;
mod state;
mod take;

use std::sync::Arc;

use tidegate_core::Micros;

use crate::inline_list::InlineList;
use crate::layers::Layer;
use crate::lease::{LeaseCounts, Terms};
use crate::step::{Decided, Lineage, ValuesSource};
use crate::store::{
    GaveUp, Generation, KeyAsk, OnEvent, OnUnitsBack, StepArgs, StepReply, Store, Verb,
};
use spend::LeasesNeeded;
use state::LeaseState;
pub(crate) use state::{CallCounts, Lost, UntilDropped};

/// The handles of a gate that leases need.
#[derive(Clone)]
pub(crate) struct Handles {
    /// Called with limiters that got units back.
    pub(crate) on_units_back: OnUnitsBack,
    pub(crate) report: OnEvent,
}

/// Spends units that were taken ahead from the store `inner`.
#[derive(Clone)]
pub(crate) struct Leases<S> {
    pub(crate) inner: S,
    generation: Arc<Generation>,
    state: LeaseState,
    handles: Handles,
}

impl<S: Store> Leases<S> {
    /// Adds leases of a process that shares the store with `nodes`, itself included.
    pub(crate) fn new(
        inner: S,
        generation: &Arc<Generation>,
        nodes: u64,
        handles: Handles,
    ) -> Self {
        let state = LeaseState::new(nodes).under(&generation.policy, &generation.policy);
        Self { inner, generation: Arc::clone(generation), state, handles }
    }

    /// Returns the guard that notes the drop of the gate.
    pub(crate) fn until_dropped(&self) -> UntilDropped {
        UntilDropped(Arc::clone(&self.state.held))
    }

    /// Returns the counts of the questions to the store so far.
    pub(crate) fn calls(&self) -> &CallCounts {
        &self.state.held.calls
    }

    /// Returns the fate of all leased units so far.
    pub(crate) fn counts(&self) -> LeaseCounts {
        self.state.book().counts()
    }

    /// Returns the callback for the number of nodes that share the store. Units above this node's share of a limit are
    /// given back.
    pub(crate) fn nodes(&self) -> impl Fn(u64) + Send + Sync + 'static {
        let held = Arc::clone(&self.state.held);
        move |nodes| {
            held.nodes.send_if_modified(|known| std::mem::replace(known, nodes) != nodes);
        }
    }

    /// Returns the terms of the leases of a limiter, if it has any. A limiter whose values are looked up has none.
    fn terms(&self, ask: &KeyAsk) -> Option<Terms> {
        let terms = self.state.terms(ask.rule, ask.values.variant)?;
        (ask.values.source == ValuesSource::Rule).then_some(terms)
    }

    /// For each limiter with leases, returns the time that units count as taken earlier if they are given back.
    fn leased(&self, asks: &[KeyAsk]) -> InlineList<Option<Micros>> {
        let has_terms = asks.iter().any(|ask| self.terms(ask).is_some());
        let asks = if has_terms { asks } else { &[] };
        asks.iter().map(|ask| Some(self.terms(ask)?.exact_earlier())).collect()
    }
}

impl<S: Store> Store for Leases<S> {
    async fn step(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        if args.verb == Verb::Reset {
            return self.reset(asks, args).await;
        }
        let leased = self.leased(asks);
        let args = StepArgs { leased: &leased, ..args };
        // The store may remember an answer to an id.
        let spends = args.verb == Verb::Ask && !args.is_queued && args.origin.id.is_none();
        if !spends || leased.is_empty() || !self.state.may_spend() {
            return self.inner.step(asks, args).await;
        }
        match self.spend(asks, LeasesNeeded::Any) {
            Some(spending) if spending.is_all => Ok(spending.admitted()),
            Some(spending) => Box::pin(self.decide_rest(asks, args, spending)).await,
            None => self.inner.step(asks, args).await,
        }
    }

    fn under(&self, generation: &Arc<Generation>) -> Self {
        let state = self.state.under(&self.generation.policy, &generation.policy);
        let inner = self.inner.under(generation);
        Self { inner, generation: Arc::clone(generation), state, handles: self.handles.clone() }
    }

    pass_inward!(undo leases store counts);
}

impl<S: Store> Layer for Leases<S> {
    fn step_now(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Option<StepReply> {
        if !self.state.may_spend() || args.origin.id.is_some() {
            return None;
        }
        Some(self.spend(asks, LeasesNeeded::All)?.admitted())
    }

    fn decides_now(&self) -> bool {
        self.state.may_spend()
    }

    fn covered(&self, asks: &[KeyAsk]) -> InlineList<Option<Decided>> {
        self.decisions_covered(asks)
    }

    fn has_leases(&self, ask: &KeyAsk) -> bool {
        self.terms(ask).is_some()
    }

    fn lasts(&self, ask: &KeyAsk) -> Option<Micros> {
        self.terms(ask)?;
        self.state.book().lasts(self.inner.host().uptime(), ask)
    }

    fn superseded(&self, changed: &[Lineage]) {
        self.close_leases_of_rules(changed);
    }

    async fn end(&self) {
        self.shut_down().await;
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for Leases<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { inner, state, .. } = self;
        f.debug_struct("Leases").field("inner", inner).field("state", state).finish_non_exhaustive()
    }
}

#[cfg(test)]
impl<S: Store> Leases<S> {
    /// Returns the units of a limiter that can be spent now.
    pub(crate) fn held(&self, ask: &KeyAsk) -> u64 {
        self.state.book().held(self.inner.host().uptime(), ask)
    }
}

#[cfg(test)]
mod tests;
