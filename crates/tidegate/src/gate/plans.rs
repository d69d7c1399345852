//! Figures in place of a rule's own: a plan that is looked up for each key, or what a request brings along.

use std::sync::Arc;

use tidegate_core::Rule;

use super::Gate;
use crate::clock::Clock;
use crate::request::{Descriptor, Request};
use crate::rules::NoSuchRule;

impl<C: Clock> Gate<C> {
    /// Looks up the figures of the named rule for each key with `plans`: the plan of the caller whom a
    /// descriptor is about, of any algorithm. `None` is the rule's own figures, those of an override
    /// included; under an unlimited plan the rule is not met, and what was used stays used.
    ///
    /// Said again, the last lookup holds. All the rest is as with the rule's own figures: the request is decided with its other
    /// rules in one atomic step, and every verb knows the plan. A key whose plan changes keeps what it has
    /// used: the request that finds the change settles time under the old figures, and puts the new ones
    /// in force, also where it is refused. A look, or a cost of 0, tells how things would stand under them,
    /// and puts nothing in force. Figures that a request brings ([`OwnLimit`](crate::OwnLimit)) stand
    /// before those of the plan.
    ///
    /// `plans` is asked for each request, once for each limiter of the rule, and for one that waits again
    /// whenever its turn may have come. It should tell the same of all descriptors that have the rule's key
    /// in common. It is to be quick, and must not ask this gate: where somebody waits, it runs while all
    /// queues are held.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Micros, Policy, Request, Rule, RuleSpec, Spec};
    ///
    /// let per_hour = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Micros::from_secs(3_600));
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
    /// The policy has no such rule.
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

    /// Tells those who wait for a limiter of this request that its plan is another: else they ask again only
    /// when what they were told would be over. Who does not wait needs no telling.
    pub fn plan_changed(&self, request: &Request<'_>) {
        self.wake(&self.met_at_all(&self.memory.newest(), request));
    }
}
