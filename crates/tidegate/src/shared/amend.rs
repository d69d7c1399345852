//! Changes of a gate over a store while it decides: of its policy, and of the nodes.

use super::{InForce, SharedGate};
use crate::rules::{AmendError, Amendment, Policy, PolicyErrors};
use crate::store::{Layer, Store, StoreError};

impl<S: Store> SharedGate<S> {
    /// Puts another policy in force on this node at one instant, like [`Gate::replace`](crate::Gate::replace),
    /// for limiters in the store.
    ///
    #[doc = include_str!("../frontend/replace.md")]
    ///
    /// Each limiter of a rule with other values changes in the store when this node next takes from it, in the same
    /// step. So the change itself takes no time, and does not ask the store. The store knows a limiter by the domain
    /// and name of its rule, and by the values of its key and `hash_tag`: if other entries become the **key** or the
    /// tag, limiters with the same values as before go on, and all others start fresh. The limiters of a removed rule
    /// stay in the store until they expire, and in this process at least as long. A rule that is **added** starts with
    /// the state that the store has.
    ///
    /// Each node gets the policy separately. While nodes differ, the newest [revision](Policy::with_revision)
    /// that has taken from a limiter decides it, whichever node asks. Revisions are compared by the number of
    /// the policy first, then by the time at which the values of the rule took effect on their node, by the
    /// store's clock; values that stay keep their time. So this node has the newest values of each rule that is added
    /// or whose values or overrides change, unless its policy has a smaller revision number than another node's, or
    /// none.
    ///
    /// A request is decided under the policy that was in force when it came, unless newer values have taken
    /// from one of its limiters by then. A cost that was reserved before is settled with the limiters that took it. The
    /// limiters that decide while the store is unavailable ([`OnStoreError::Local`](crate::OnStoreError::Local)) change
    /// as well.
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
    /// A rule cannot be kept in this store, or no share of it can be kept in this process. The old policy stays
    /// in force.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyErrors> {
        self.change(|_| Ok(policy))
    }

    /// Changes the values of the named rule or of one of its overrides, like [`Gate::amend`](crate::Gate::amend), for
    /// limiters in the store.
    ///
    /// This is [`SharedGate::replace`] with a policy in which the rule has these values. Change the rule on all
    /// nodes.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, SharedGate, Spec};
    ///
    /// # fn example(gate: &SharedGate) -> Result<(), tidegate::AmendError> {
    /// let half = Spec::new(AlgorithmKind::TokenBucket, 50, Duration::from_secs(1));
    /// gate.amend("default", "per-user", half)
    /// # }
    /// ```
    ///
    /// # Errors
    /// The policy has no such rule or the rule no such override, or the values are invalid, cannot be kept in this
    /// store, or no share of them can be kept in this process. The old values stay in force.
    pub fn amend(
        &self,
        domain: &str,
        rule: &str,
        values: impl Into<Amendment>,
    ) -> Result<(), AmendError> {
        self.change(|policy| policy.with_values((domain, rule), values.into()))
    }

    /// Gives back the unspent leased units of this node ([`RuleSpec::lease`](crate::RuleSpec::lease)), takes no more
    /// leases, and removes this node from the list of nodes that share the store, so that the others' shares of each
    /// limit grow immediately. A node that ends without this counts for five more seconds. Call it in a process that
    /// is about to end: the gate goes on deciding, and is never listed again.
    ///
    /// ```no_run
    /// # async fn example(gate: &tidegate::SharedGate) -> Result<(), tidegate::StoreError> {
    /// // The process is about to end.
    /// gate.leave().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store did not reply.
    pub async fn leave(&self) -> Result<(), StoreError> {
        self.newest().tower.end().await;
        self.store.leave().await
    }

    /// Puts in force the policy that `next` makes of the current one.
    fn change<E: From<PolicyErrors>>(
        &self,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
    ) -> Result<(), E> {
        self.local.change(
            |before| -> Result<Policy, E> {
                let policy = next(before)?;
                self.store.fits(&policy)?;
                Ok(policy)
            },
            |changed| {
                let before = self.newest();
                let generation = self.local.memory.newest().share();
                let tower = before.tower.under(&generation);
                self.newest.publish(|| InForce { generation, tower });
                // Leases under the old values go back once every new request begins under the new policy.
                before.tower.superseded(changed);
                self.queues.wake_all_of(changed);
            },
        )?;
        self.warned.warn(&self.local);
        Ok(())
    }
}
