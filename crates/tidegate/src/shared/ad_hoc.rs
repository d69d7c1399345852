//! Limiters in the store that no rule of the policy names: each call brings the figures of its own.

use tidegate_core::{Decision, Rule};

use super::SharedGate;
use crate::step::UNLIMITED;
use crate::store::redis::script::Limiter;
use crate::store::redis::{StoreError, key_in};

impl SharedGate {
    /// Decides for one key under `rule`, and takes `cost` if it admits it. The keys of a `namespace` are
    /// apart from those of all others, and of every rule of the policy.
    ///
    /// A key that was asked under another rule before follows this one when something is taken: what was used
    /// stays used. A denied call leaves it as it is, and is told the least wait after which the other rule has
    /// let go of enough. Time that passes under a faster rule drains at its rate. An unlimited rule asks
    /// nothing of the store and admits everything.
    ///
    /// ```no_run
    /// use tidegate::{AlgorithmKind, Micros, Rule, SharedGate, Spec, StoreError};
    ///
    /// # async fn example(gate: &SharedGate) -> Result<(), Box<dyn std::error::Error>> {
    /// let per_minute = Rule::new(Spec::new(AlgorithmKind::TokenBucket, 30, Micros::from_secs(60)))?;
    /// let decision = gate.check_under("plans", b"ada", &per_minute, 1).await?;
    /// if decision.is_allowed() { /* go on */ }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store gave no answer: no rule of the policy says what to do then. Whether anything was taken
    /// is known only where nothing was sent.
    pub async fn check_under(
        &self,
        namespace: &str,
        key: &[u8],
        rule: &Rule,
        cost: u64,
    ) -> Result<Decision, StoreError> {
        let key = key_in(&self.settings().key_prefix, namespace, key);
        let Some(limiter) = Limiter::new(&key, rule, cost).map(Limiter::brought) else {
            return Ok(UNLIMITED);
        };
        let done = self.newest().ask(limiter).await?;
        let none = || StoreError::Answer("no figures".to_owned());
        done.decisions.into_iter().next().ok_or_else(none)
    }
}
