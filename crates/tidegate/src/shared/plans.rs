//! Values in place of a rule's own, over a store: a plan for each key, or values supplied by the request.

use std::sync::Arc;

use tidegate_core::Rule;

use super::{InForce, SharedGate};
use crate::inline_list::InlineList;
use crate::request::{Descriptor, Request};
use crate::rules::{NoSuchRule, PolicyRule};
use crate::step::keep_limited;
use crate::store::redis::key_of;
use crate::store::{KeyAsk, Store};

impl<S: Store> SharedGate<S> {
    /// Looks up the values of the named rule for each key with `plans`: see
    /// [`Gate::with_plans`](crate::Gate::with_plans). All nodes should look up the same values. If they differ,
    /// each call puts the values of its node in force, and usage carries over: a plan has no
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
        let lineage = self.local.memory.keep_lineage(domain, rule)?;
        self.front.plans.add(lineage, Box::new(plans));
        Ok(self)
    }

    /// Returns the limiters of a request, in the order of the rules, each once.
    pub(super) fn asks(&self, in_force: &InForce<S>, request: &Request<'_>) -> InlineList<KeyAsk> {
        let mut asks = self.all_asks(in_force, request);
        keep_limited(&mut asks);
        asks
    }

    /// Returns the limiters of a request, including those that a plan or the request makes unlimited.
    pub(super) fn all_asks(
        &self,
        in_force: &InForce<S>,
        request: &Request<'_>,
    ) -> InlineList<KeyAsk> {
        let may_have_others = |number: usize| {
            let rule = in_force.generation.policy.rules().get(number);
            let lineage = in_force.generation.lineage(number);
            rule.is_some_and(|rule| self.front.plans.has_any(lineage, rule))
        };
        self.resolve(in_force, request, may_have_others)
    }

    /// Resolves a request; an unlimited rule is left out unless it `may_have_others` than its own values.
    pub(super) fn resolve(
        &self,
        in_force: &InForce<S>,
        request: &Request<'_>,
        may_have_others: impl Fn(usize) -> bool,
    ) -> InlineList<KeyAsk> {
        let (policy, prefix) = (&in_force.generation.policy, &self.key_prefix);
        let key = |rule: &PolicyRule, descriptor: &Descriptor<'_>| key_of(prefix, rule, descriptor);
        let lineage = |number| in_force.generation.lineage(number);
        let mut asks = InlineList::new();
        self.front.resolve(policy, lineage, request, key, may_have_others, &mut asks);
        asks
    }
}
