//! Figures in place of a rule's own, over a store: a plan for each key, or what a request brings along.

use std::sync::Arc;

use tidegate_core::Rule;

use super::{KeyMet, SharedGate};
use crate::few::Few;
use crate::gate::{limited, meet, with_actual};
use crate::request::{Descriptor, Request};
use crate::rules::{NoSuchRule, PolicyRule};
use crate::store::redis::key_of;

impl SharedGate {
    /// Looks up the figures of the named rule for each key with `plans`: see
    /// [`Gate::with_plans`](crate::Gate::with_plans). All nodes should look up the same; where they do not,
    /// each call puts the figures of its node in force, and what was used stays used.
    ///
    /// What differs from a gate in process: whoever waits under a plan keeps the one it came with; what was
    /// reserved under a limit is not given back while the plan is unlimited; and figures that no store can
    /// hold, as those of a log whose string could pass 512 MB, are answered as by a rule that is closed
    /// while the store is away ([`Answer::is_unavailable`](crate::Answer::is_unavailable)). While the store
    /// is away, a rule that is decided in process goes by this node's part of the plan, and where that is
    /// less than one unit it denies.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub fn with_plans(
        mut self,
        domain: &str,
        rule: &str,
        plans: impl Fn(&Descriptor<'_>) -> Option<Arc<Rule>> + Send + Sync + 'static,
    ) -> Result<Self, NoSuchRule> {
        let number = self.plans.add(&self.store.policy, domain, rule, Box::new(plans))?;
        self.away.keep_figures(number);
        Ok(self)
    }

    /// The limiters a request meets, in the order of the rules, each once.
    pub(crate) fn met(&self, request: &Request<'_>) -> Few<KeyMet> {
        limited(self.met_at_all(request))
    }

    /// The same with those that are unlimited by a plan, or by what the request brings.
    pub(crate) fn met_at_all(&self, request: &Request<'_>) -> Few<KeyMet> {
        let prefix = &self.settings().key_prefix;
        let known_by =
            |rule: &PolicyRule, descriptor: &Descriptor<'_>| key_of(prefix, rule, descriptor);
        meet(self.policy(), &self.plans, request, known_by, |number, variant, own| {
            if self.away.is_figured(number) {
                return Some(self.amended.figures_or_unlimited(number, variant, own));
            }
            let figures = self.amended.figures(number, variant);
            let limits = !figures.as_deref().unwrap_or(own).is_unlimited();
            limits.then_some(figures)
        })
    }

    /// The limiters a request meets, and what each is to be settled with.
    pub(super) fn met_to_settle(
        &self,
        request: &Request<'_>,
        actual: u64,
    ) -> (Vec<KeyMet>, Vec<u64>) {
        let costing_actual: Vec<_> =
            request.descriptors().iter().map(|descriptor| descriptor.cost(actual)).collect();
        let actual = self.met_at_all(&Request::new(request.domain(), &costing_actual));
        let both = with_actual(self.met_at_all(request), &actual).into_iter();
        both.filter(|(met, _)| !met.is_unlimited()).unzip()
    }
}
