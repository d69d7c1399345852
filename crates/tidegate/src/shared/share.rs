//! A node's share of each limit, for decisions without the store.

use tidegate_core::{Algorithm, Rule, Visitor};

use crate::rules::share::{counts, saturated};
use crate::rules::{OnStoreError, Policy, PolicyErrors, PolicyRule, RuleSpec, refused};

pub(super) use crate::rules::share::Share;

impl Share {
    /// Returns the share of the node at this rank, from 0, of `nodes`.
    pub(super) fn of_rank(nodes: u64, rank: u64) -> Self {
        let nodes = saturated(nodes).max(1);
        Self { nodes, rank: Some(saturated(rank).min(nodes - 1)) }
    }

    pub(super) const fn nodes(self) -> u64 {
        self.nodes as u64
    }

    /// Returns whether some node has no share of this limit.
    fn leaves_some_without(self, whole: &Rule) -> bool {
        counts(whole.spec()).any(|units| (1..self.nodes()).contains(&units))
    }

    /// Returns whether a rule that is decided in process leaves some node without a share, under any of its values.
    pub(super) fn is_too_small(self, rule: &PolicyRule) -> bool {
        is_local(rule.spec())
            && (0..rule.variants()).any(|number| self.leaves_some_without(rule.variant(number)))
    }

    /// Checks whether shares can be made of a policy.
    ///
    /// # Errors
    /// The values of which no share can be made.
    pub(super) fn check(self, policy: &Policy) -> Result<(), PolicyErrors> {
        let rules = policy.rules().iter().enumerate();
        for (number, rule) in rules.filter(|(_, rule)| is_local(rule.spec())) {
            for variant in 0..rule.variants() {
                let part = Rule::new(self.spec(rule.variant(variant).spec()));
                part.map_err(|errors| refused(number, rule, &errors))?;
            }
        }
        Ok(())
    }
}

/// Returns the most units that a limiter of a rule can hold.
pub(super) fn limit_of(rule: &Rule) -> Option<u64> {
    struct LimitOf;
    impl Visitor for LimitOf {
        type Out = u64;
        fn visit<R: Algorithm>(self, algorithm: &R) -> u64 {
            algorithm.limit()
        }
    }
    rule.visit(LimitOf)
}

/// Returns whether a rule is decided in process while the store is unavailable or overloaded.
pub(super) fn is_local(rule: &RuleSpec) -> bool {
    rule.on_store_error != OnStoreError::Closed
}

#[cfg(test)]
mod tests;
