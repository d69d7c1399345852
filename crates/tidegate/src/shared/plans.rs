//! Values in place of a rule's own, over a store: a plan for each key, or values supplied by the request.

use super::{InForce, SharedGate};
use crate::inline_list::InlineList;
use crate::request::{Descriptor, Request};
use crate::rules::PolicyRule;
use crate::step::keep_limited;
use crate::store::redis::key_of;
use crate::store::{KeyAsk, Store};

impl<S: Store> SharedGate<S> {
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
