//! A node's share of the limits of the policy in force, for decisions without the store.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tidegate_core::Rule;
use tidegate_rules::shared::{Share, is_local};

use crate::rules::Policy;
use crate::store::KeyAsk;

/// This node's share of every limit.
#[derive(Debug)]
pub(super) struct Parts(RwLock<OfPolicy>);

/// A share, and that share of the newest policy's values.
#[derive(Debug)]
struct OfPolicy {
    share: Share,
    policy: Arc<Policy>,
    /// By rule and variant; empty for rules that are not decided in process.
    rules: Vec<Vec<Rule>>,
}

impl OfPolicy {
    fn new(share: Share, policy: Arc<Policy>) -> Self {
        let rules = policy.rules().iter().map(|rule| {
            let variants = if is_local(rule.spec()) { rule.variants() } else { 0 };
            (0..variants).map(|number| share.rule(rule.variant(number))).collect()
        });
        Self { share, rules: rules.collect(), policy }
    }
}

impl Parts {
    pub(super) fn new(share: Share) -> Self {
        Self(RwLock::new(OfPolicy::new(share, Arc::default())))
    }

    /// Returns this node's share of every limit.
    pub(super) fn share(&self) -> Share {
        self.read().share
    }

    /// Puts another share of every limit in force.
    pub(super) fn split(&self, share: Share) {
        let mut parts = self.write();
        *parts = OfPolicy::new(share, Arc::clone(&parts.policy));
    }

    /// Puts this node's share of a policy in force.
    pub(super) fn follow(&self, policy: &Arc<Policy>) {
        let mut parts = self.write();
        *parts = OfPolicy::new(parts.share, Arc::clone(policy));
    }

    /// Returns this node's share of the values of a limiter that matched under `policy`, even if another policy
    /// is in force now.
    pub(super) fn of(&self, policy: &Arc<Policy>, ask: &KeyAsk) -> Option<Rule> {
        let parts = self.read();
        if ask.values.own.is_none() && Arc::ptr_eq(&parts.policy, policy) {
            return parts.rules.get(ask.rule)?.get(ask.values.variant).cloned();
        }
        Some(parts.share.rule(ask.rule_in(policy)?))
    }

    fn read(&self) -> RwLockReadGuard<'_, OfPolicy> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, OfPolicy> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
