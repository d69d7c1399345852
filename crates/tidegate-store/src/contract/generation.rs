//! A generation: a policy that was put in force, and the identities of its rules.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::rules::{Policy, PolicyRule};
use crate::step::Lineage;

/// A policy that was put in force. It never changes, so a request sees one policy from beginning to end.
#[derive(Debug)]
pub struct Generation {
    #[doc(hidden)]
    pub policy: Arc<Policy>,
    /// By the number of the rule.
    rules: Vec<RuleInForce>,
}

/// A rule in force.
#[derive(Debug)]
pub struct RuleInForce {
    /// Its identity through all generations.
    pub lineage: Lineage,
    /// When its values took effect; a later change of a rule always has a later time.
    pub since: Timestamp,
}

// A generation is only read.
impl UnwindSafe for Generation {}
impl RefUnwindSafe for Generation {}

impl Generation {
    /// A policy with its rules, in their order.
    #[doc(hidden)]
    pub const fn new(policy: Arc<Policy>, rules: Vec<RuleInForce>) -> Self {
        Self { policy, rules }
    }

    /// Returns the policy.
    #[must_use]
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }
}

#[doc(hidden)]
impl Generation {
    /// The identity of a rule through all generations.
    #[inline]
    pub fn lineage(&self, rule: usize) -> Lineage {
        self.rules.get(rule).map_or(Lineage::NONE, |rule| rule.lineage)
    }

    /// When the values of a rule took effect.
    pub fn since(&self, rule: usize) -> Timestamp {
        self.rules.get(rule).map_or(Timestamp::EPOCH, |rule| rule.since)
    }

    /// The name of the rule with this identity; `None` if it is not in force.
    pub fn name_of(&self, lineage: Lineage) -> Option<&str> {
        self.policy.rules().get(self.number_of(lineage)?).map(PolicyRule::name)
    }

    /// The identity of the rule of that name in a domain, or [`Lineage::NONE`] if no such rule is in force.
    pub fn lineage_of(&self, domain: &str, name: &str) -> Lineage {
        let mut rules = self.policy.rules().iter();
        let number = rules.position(|rule| rule.domain() == domain && rule.name() == name);
        number.map_or(Lineage::NONE, |number| self.lineage(number))
    }

    /// The number of the rule with this identity; `None` if it is not in force.
    pub fn number_of(&self, lineage: Lineage) -> Option<usize> {
        self.rules.iter().position(|rule| rule.lineage == lineage)
    }
}
