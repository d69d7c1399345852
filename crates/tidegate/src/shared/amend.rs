//! Changing the policy of a gate while it decides in a store.

use tidegate_core::Spec;

use super::SharedGate;
use crate::rules::{
    AmendError, NoSuchRule, OverrideSpec, Policy, PolicyErrors, RuleSpec, override_values,
    own_values,
};

impl SharedGate {
    /// Puts another policy in force on this node from one instant to the next: what
    /// [`Gate::replace`](crate::Gate::replace) does, for limiters in the store.
    ///
    /// Rules are matched by domain and name. What was used stays used, so no change is a credit or a reset:
    ///
    /// - A rule that is **unchanged** goes on, and is as new as it was: nothing changes for other nodes.
    /// - A limiter of a rule with **other figures** follows in the store when this node next takes from it, in the same
    ///   step. So this takes no time, and asks nothing of the store.
    /// - Other words hold from now on. In the store a limiter is known by the domain and name of its rule, the values of
    ///   its key and that of its `hash_tag`: where other entries become the **key** or the tag, those that are known by the
    ///   same values as before go on, and all others begin as new.
    /// - A rule that is **removed** decides nothing any more on this node. Its limiters stay in the store until they
    ///   expire, and in this process until they would have, so that adding it back gives nobody a fresh limit.
    /// - A rule that is **added** begins with what is in the store.
    ///
    /// Each node is given the policy by itself. While they differ, a limiter is decided by the values of the newest
    /// [revision](Policy::with_revision) that has taken from it, whichever node asks. A revision is the policy's own
    /// word, and of equal words the time at which the values of the rule came in force on their node, by the store's
    /// clock: so of rules that are added, or whose figures or overrides change, this node has the newest, but where
    /// the policy has a smaller word than that of another node, or none.
    ///
    /// A request is decided under one policy: that of when it was asked, but for a limiter from which newer values have
    /// taken by then. Whoever waits for a limiter of a changed or
    /// removed rule asks again at once, under the policy of now; a rule that was added since refuses it where it has no
    /// room for it. Plans, bans, queues and answers that are remembered under an id belong to a rule by its domain
    /// and name, and go on; a cost that was reserved before is settled with the limiters that took it. What decides
    /// while the store is unavailable ([`OnStoreError::Local`](crate::OnStoreError::Local)) follows as well.
    ///
    /// An [`Answer`](crate::Answer) keeps the policy that decided.
    ///
    /// ```no_run
    /// use tidegate::{Policy, PolicyErrors, RuleSpec, SharedGate};
    ///
    /// # fn example(gate: &SharedGate, rules: Vec<RuleSpec>) -> Result<(), PolicyErrors> {
    /// gate.replace(Policy::new(rules)?)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// A rule can not be kept in this store, or not with a part of its limit in this process; the old policy stays in
    /// force.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyErrors> {
        self.change(|before| Ok(policy.known_as(before)))
    }

    /// Puts other figures in force for the named rule: what [`Gate::amend`](crate::Gate::amend) does, for
    /// the limiters in the store.
    ///
    /// It is [`SharedGate::replace`] with the policy in which this rule has these figures: change the rule on all nodes.
    ///
    /// ```no_run
    /// use tidegate::{AlgorithmKind, Micros, SharedGate, Spec};
    ///
    /// # fn example(gate: &SharedGate) -> Result<(), tidegate::AmendError> {
    /// let half = Spec::new(AlgorithmKind::TokenBucket, 50, Micros::from_secs(1));
    /// gate.amend("default", "per-user", half)
    /// # }
    /// ```
    ///
    /// # Errors
    /// The policy has no such rule, the figures are wrong, can not be kept in this store, or not with a
    /// part of the limit in this process; the old ones stay in force.
    pub fn amend(&self, domain: &str, rule: &str, spec: Spec) -> Result<(), AmendError> {
        self.change(|policy| policy.with_spec((domain, rule), own_values(spec)))
    }

    /// Puts other figures in force for the keys of one override: what
    /// [`Gate::amend_override`](crate::Gate::amend_override) does.
    ///
    /// # Errors
    /// As [`SharedGate::amend`], and where the rule has no such override.
    pub fn amend_override(
        &self,
        domain: &str,
        rule: &str,
        other: OverrideSpec,
    ) -> Result<(), AmendError> {
        self.change(|policy| policy.with_spec((domain, rule), override_values(other)))
    }

    /// The words of the named rule as they are in force on this node.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub fn in_force(&self, domain: &str, rule: &str) -> Result<RuleSpec, NoSuchRule> {
        self.policy().named(domain, rule).map(|(_, rule)| rule.spec().clone())
    }

    /// Puts in force what `next` makes of the policy that is in force.
    fn change<E: From<PolicyErrors>>(
        &self,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
    ) -> Result<(), E> {
        let next = |before: &Policy| -> Result<Policy, E> {
            let policy = next(before)?;
            policy.fits(self.settings())?;
            Ok(policy)
        };
        self.fallback.change(next, |changed| {
            let store = self.newest().under(self.fallback.memory.newest().share());
            self.newest.publish(|| store);
            self.queues().wake_those(|queue| changed.iter().any(|rule| queue.is_of(*rule)));
        })?;
        self.nodes.follow(&self.client, &self.fallback);
        Ok(())
    }
}
