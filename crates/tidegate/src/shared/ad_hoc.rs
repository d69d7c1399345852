//! Limiters in the store that no rule of the policy names: each call supplies the values.

use tidegate_core::{Decision, Rule};

use super::SharedGate;
use crate::store::StoreError;
use crate::store::redis::key_in;
use crate::store::redis::script::Limiter;

impl SharedGate {
    /// Decides for one key under `rule`, and takes `cost` if the rule admits it. The keys of a `namespace` are
    /// separate from the keys of other namespaces and of the policy's rules.
    ///
    /// A key that was asked under another rule before moves to this rule with its usage when something is taken. A
    /// denied call leaves the key as it is; its `retry_after` is at the earliest when the other rule has freed enough.
    /// Time that passes under a faster rule drains at its rate. An unlimited rule admits everything and does not ask
    /// the store.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Rule, SharedGate, Spec, StoreError};
    ///
    /// # async fn example(gate: &SharedGate) -> Result<(), Box<dyn std::error::Error>> {
    /// let per_minute = Rule::new(Spec::new(AlgorithmKind::TokenBucket, 30, Duration::from_secs(60)))?;
    /// let decision = gate.check_under("plans", b"ada", &per_minute, 1).await?;
    /// if decision.is_allowed() { /* go on */ }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store did not reply, and no rule of the policy says how to decide without it. The units may have been taken,
    /// unless nothing was sent.
    pub async fn check_under(
        &self,
        namespace: &str,
        key: &[u8],
        rule: &Rule,
        cost: u64,
    ) -> Result<Decision, StoreError> {
        let key = key_in(&self.settings().key_prefix, namespace, key);
        let Some(limiter) = Limiter::new(&key, rule, cost).map(Limiter::from_request) else {
            return Ok(Decision::UNLIMITED);
        };
        self.newest().innermost().check_under(limiter).await
    }
}
