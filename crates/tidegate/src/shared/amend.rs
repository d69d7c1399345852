//! Changing the figures of a gate's rules while it decides in a store.

use tidegate_core::Spec;

use super::{KeyMet, SharedGate, lineage_of};
use crate::rules::{
    AmendError, NoSuchRule, OverrideSpec, PolicyRule, RuleSpec, override_figures, own_figures,
};

impl SharedGate {
    /// Puts other figures in force for the named rule: what [`Gate::amend`](crate::Gate::amend) does, for
    /// the limiters in the store.
    ///
    /// A limiter in the store follows when this node next takes from it, in the same step: what was used stays
    /// used. So this takes no time, and asks nothing of the store. It changes what this node asks: change the rule
    /// on all nodes. While they differ, a limiter is decided by the values of the newest revision that has taken
    /// from it, whichever node asks; the revision of a rule that was changed is that of the policy at the time of the
    /// change. Requests that were sent before are decided by the figures of then; whoever waits goes on under
    /// those of now. What decides while the store is unavailable
    /// ([`OnStoreError::Local`](crate::OnStoreError::Local)) is changed as well.
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
        self.amend_by((domain, rule), own_figures(spec))
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
        self.amend_by((domain, rule), override_figures(other))
    }

    /// The words of the named rule as they are in force on this node.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub fn in_force(&self, domain: &str, rule: &str) -> Result<RuleSpec, NoSuchRule> {
        self.policy.in_force(domain, rule).map(|(_, spec)| spec)
    }

    fn amend_by(
        &self,
        named: (&str, &str),
        words: impl FnOnce(&mut RuleSpec) -> Result<(), AmendError>,
    ) -> Result<(), AmendError> {
        let put = |number: usize, rule: &PolicyRule| {
            let all = self.policy.current().with_rules([(number, rule.clone())].into_iter());
            all.fits(self.settings())?;
            self.fallback.amend(number, rule)
        };
        let number = self.policy.change(named, self.now(), words, put)?;
        self.queues().wake_those(|queue| queue.is_of(lineage_of(number)));
        Ok(())
    }

    /// Puts limiters that were met under the figures that are in force now, but for those that came with
    /// the request. One that is unlimited by now keeps its place.
    pub(crate) fn follow_changes(&self, met: &mut [KeyMet]) {
        for met in met.iter_mut().filter(|met| !met.brought && !met.by_plan) {
            met.figures = self.policy.figures(met.rule, met.variant);
        }
    }
}
