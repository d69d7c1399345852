//! Plans: values that are looked up for each key, in place of a rule's own.

use std::sync::Arc;

use tidegate_core::Rule;

use super::Gate;
use crate::clock::Clock;
use crate::request::{Descriptor, Request};
use crate::rules::NoSuchRule;

impl<C: Clock> Gate<C> {
    /// Looks up the values of the named rule for each key with `plans`: the plan of the caller that a descriptor is
    /// about, with any algorithm. `None` stands for the rule's own values, or for the values of its override. Under an
    /// unlimited plan the rule does not decide, and its limiters keep their usage.
    ///
    /// A second call replaces the lookup. The request is decided with its other rules in one atomic step, and every
    /// verb uses the plan. A key whose plan changes keeps its usage: the request that finds the change settles time
    /// under the old values and puts the new values in force, even if it is refused. A peek, or a cost of 0, reports
    /// the decision under the new values and puts nothing in force. Values that a request supplies
    /// ([`RequestLimit`](crate::RequestLimit)) take precedence over the plan.
    ///
    /// `plans` is called for each request, once for each limiter of the rule; for a waiting request it is called
    /// again whenever its turn may have come. It should return the same plan for all descriptors with the same key.
    /// It must be quick and must not ask this gate: while requests wait, it runs with all queues locked.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, Rule, RuleSpec, Spec};
    ///
    /// let per_hour = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(3_600));
    /// let rules = vec![RuleSpec::new("per-user", per_hour(2)).key(["user"]), RuleSpec::new("all", per_hour(50))];
    /// let large = Arc::new(Rule::new(per_hour(100))?);
    /// let gate = Gate::new(Policy::new(rules)?).with_plans("default", "per-user", move |descriptor| {
    ///     (descriptor.value("user") == Some("ada")).then(|| Arc::clone(&large))
    /// })?;
    ///
    /// let left = |user| {
    ///     let entries = [("user", user)];
    ///     gate.check(&Request::new("default", &[Descriptor::new(&entries)])).matched()[0].decision().remaining
    /// };
    /// assert_eq!((left("ada"), left("bob")), (99, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the policy has no such rule.
    pub fn with_plans(
        mut self,
        domain: &str,
        rule: &str,
        plans: impl Fn(&Descriptor<'_>) -> Option<Arc<Rule>> + Send + Sync + 'static,
    ) -> Result<Self, NoSuchRule> {
        let lineage = self.memory.keep_per_key(domain, rule, self.clock.now())?;
        self.front.plans.add(lineage, Box::new(plans));
        Ok(self)
    }

    /// Wakes the requests that wait for a limiter of this request, because its plan has changed. Without this call
    /// they ask again only when their current wait is over. Other requests need no call.
    pub fn plan_changed<'r>(&self, request: impl Into<Request<'r>>) {
        self.wake(&self.all_asks(&self.memory.newest(), &request.into()));
    }
}
