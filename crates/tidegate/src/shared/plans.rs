//! Values in place of a rule's own, over a store: a plan for each key, or values supplied by the request.

use std::sync::Arc;

use tidegate_core::Rule;
use tokio::time::Instant;

use super::store::Store;
use super::{KeyAsk, SharedGate};
use crate::frontend::with_actual;
use crate::inline_list::InlineList;
use crate::request::{Descriptor, Request};
use crate::rules::{NoSuchRule, PolicyRule};
use crate::step::keep_limited;
use crate::store::redis::script::{Call, Values};
use crate::store::redis::{StoreError, slot_of};

impl SharedGate {
    /// Looks up the values of the named rule for each key with `plans`: see
    /// [`Gate::with_plans`](crate::Gate::with_plans). All nodes should look up the same values. If they differ,
    /// each call puts the values of its node in force, and what was used stays used: a plan has no
    /// [revision](crate::Policy::with_revision), unlike the values of the rule itself.
    ///
    /// Differences from a gate in process: a request that waits keeps its plan until another policy is put in
    /// force. Values that no store can hold, such as a log whose string could exceed 512 MB, are refused as by
    /// a rule that is closed while the store is unavailable
    /// ([`Answer::is_unavailable`](crate::Answer::is_unavailable)). While the store is unavailable, a rule that
    /// is decided in process uses this node's share of the plan, and denies if that is less than one unit.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub fn with_plans(
        mut self,
        domain: &str,
        rule: &str,
        plans: impl Fn(&Descriptor<'_>) -> Option<Arc<Rule>> + Send + Sync + 'static,
    ) -> Result<Self, NoSuchRule> {
        let lineage = self.fallback.memory.keep_lineage(domain, rule)?;
        self.front.plans.add(lineage, Box::new(plans));
        let store = self.newest().looking_up(lineage);
        self.newest.publish(|| store);
        Ok(self)
    }

    /// Returns the limiters of a request, in the order of the rules, each once.
    pub(super) fn asks(&self, store: &Store, request: &Request<'_>) -> InlineList<KeyAsk> {
        let mut asks = self.all_asks(store, request);
        keep_limited(&mut asks);
        asks
    }

    /// Returns the limiters of a request, including those that a plan or the request makes unlimited.
    pub(super) fn all_asks(&self, store: &Store, request: &Request<'_>) -> InlineList<KeyAsk> {
        let key = |rule: &PolicyRule, descriptor: &Descriptor<'_>| store.key(rule, descriptor);
        let lineage = |number| store.generation.lineage(number);
        let is_looked_up = |number| store.is_looked_up(number);
        let mut asks = InlineList::new();
        self.front.resolve(store.policy(), lineage, request, key, is_looked_up, &mut asks);
        asks
    }

    /// Returns the limiters of a request with the costs to settle. Limiters that are unlimited now are
    /// included, because the request may have taken from them before.
    pub(super) fn asks_to_settle(
        &self,
        store: &Store,
        request: &Request<'_>,
        actual: &[u64],
    ) -> Vec<(KeyAsk, u64)> {
        with_actual(request, actual, |request| self.all_asks(store, request))
    }
}

/// The settlement of a request: limiters with their actual costs, and limiters that are unlimited now, with the
/// units of the reservation to give back.
#[derive(Default)]
pub(super) struct ToSettle {
    pub(super) asks: Vec<KeyAsk>,
    pub(super) actual: Vec<u64>,
    pub(super) under: Vec<Option<Values>>,
    pub(super) unlimited: Vec<(u64, KeyAsk)>,
}

impl ToSettle {
    /// Sorts limiters with their actual costs; `under` are the values under which units were taken.
    pub(super) fn of(
        limiters: Vec<(KeyAsk, u64)>,
        under: impl Fn(&KeyAsk) -> Option<Values>,
    ) -> Self {
        let mut all = Self::default();
        for (ask, actual) in limiters {
            if !ask.is_unlimited {
                all.under.push(under(&ask));
                all.asks.push(ask);
                all.actual.push(actual);
            } else if actual < ask.cost && ask.token.is_none() {
                // A permit whose rule is unlimited now ends by itself.
                all.unlimited.push((ask.cost - actual, ask));
            }
        }
        all
    }
}

impl Store {
    /// Gives units back to limiters that are unlimited now, under the values that they were last under, one step for each slot.
    ///
    /// # Errors
    /// The error of the first slot that did not reply. The slots before it have given back.
    pub(super) async fn give_back_unlimited(
        &self,
        all: &[(u64, KeyAsk)],
        deadline: Instant,
    ) -> Result<(), StoreError> {
        let is_cluster = self.client.settings().url.is_cluster();
        let slot = |ask: &KeyAsk| if is_cluster { slot_of(&ask.fingerprint) } else { 0 };
        let mut all: Vec<_> = all
            .iter()
            .map(|(units, ask)| (slot(ask), (&*ask.fingerprint, *units, ask.since)))
            .collect();
        all.sort_by_key(|(slot, _)| *slot);
        for (number, here) in all.chunk_by(|one, other| one.0 == other.0).enumerate() {
            let here: Vec<_> = here.iter().map(|(_, one)| *one).collect();
            let call = Call::giving_back(&here, None);
            let reply = self.client.run(&call.script, &call.keys, &call.args, deadline).await;
            let given_back = reply.and_then(|reply| Ok(call.given_back(&reply)?));
            given_back.map_err(|error| if number == 0 { error } else { error.in_part() })?;
        }
        Ok(())
    }
}
