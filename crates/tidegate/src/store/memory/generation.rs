//! A generation: a policy that was put in force, and the tables of its rules.
//!
//! A gate reads the newest generation for each request, and the request is decided by it. It never changes, so a
//! request sees one policy from beginning to end, and an answer can keep it.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use super::succession::GenerationNumber;
use super::table::{Part, TableInForce};
use crate::rules::{Policy, PolicyRule};
use crate::step::{Ask, Lineage, Step, ValuesSource};

/// A policy and its tables. Never changed once it is in force.
pub struct Generation {
    pub(super) number: GenerationNumber,
    pub(crate) policy: Arc<Policy>,
    /// By the number of the rule.
    pub(super) rules: Vec<TablesOfRule>,
    /// Tables of removed rules that are still in use.
    pub(super) removed: Vec<TableInForce>,
}

/// The tables of one rule in one generation.
#[derive(Clone, Debug)]
pub(super) struct TablesOfRule {
    pub(super) lineage: Lineage,
    /// By variant. One table for all if each limiter has a rule of its own.
    pub(super) tables: Vec<TableInForce>,
    pub(super) is_per_key: bool,
    /// When its values took effect; a later change of a rule always has a later time.
    pub(super) since: Timestamp,
}

/// The limiters that a gate keeps in memory for one rule ([`GateCounts::rules`](crate::GateCounts::rules)).
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "10/s").key(["user"])])?);
/// for user in ["ada", "bob", "ada"] {
///     let _ = gate.admits(&[("user", user)]);
/// }
/// for (rule, kept) in gate.counts().rules() {
///     assert_eq!((rule.name(), kept.keys, kept.dropped), ("per-user", 2, 0));
/// }
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptOfRule {
    /// Limiters in existence, one for each key.
    pub keys: usize,
    /// The memory of the limiters, in bytes: lines of packed states as far as they were made, and the bytes of all
    /// other states that count for a cap.
    pub bytes: usize,
    /// Idle limiters that were dropped so far.
    pub dropped: u64,
}

/// Prints only the policy, without the limiters, because answers keep generations.
impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, policy, .. } = self;
        f.debug_struct("Generation").field("number", number).field("policy", policy).finish()
    }
}

impl Generation {
    /// Returns the policy.
    #[cfg(feature = "redis")]
    #[must_use]
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The identity of a rule through all generations.
    #[inline]
    pub(crate) fn lineage(&self, rule: usize) -> Lineage {
        self.rules.get(rule).map_or(Lineage::NONE, |rule| rule.lineage)
    }

    /// Returns whether each limiter of a rule has a rule of its own.
    #[inline]
    pub(crate) fn is_per_key(&self, rule: usize) -> bool {
        self.rules.get(rule).is_some_and(|rule| rule.is_per_key)
    }

    /// The name of the rule with this identity; `None` if it is not in force.
    #[cfg(feature = "redis")]
    pub(crate) fn name_of(&self, lineage: Lineage) -> Option<&str> {
        let number = self.rules.iter().position(|rule| rule.lineage == lineage)?;
        self.policy.rules().get(number).map(PolicyRule::name)
    }

    /// The identity of the rule of that name in a domain, or [`Lineage::NONE`] if no such rule is in force.
    #[cfg(feature = "redis")]
    pub(crate) fn lineage_of(&self, domain: &str, name: &str) -> Lineage {
        let mut rules = self.policy.rules().iter();
        let number = rules.position(|rule| rule.domain() == domain && rule.name() == name);
        number.map_or(Lineage::NONE, |number| self.lineage(number))
    }

    /// When the values of a rule took effect.
    #[cfg(feature = "redis")]
    pub(crate) fn since(&self, rule: usize) -> Timestamp {
        self.rules.get(rule).map_or(Timestamp::EPOCH, |rule| rule.since)
    }

    /// The number of the rule of a limiter from another generation; `None` if that rule is not in force.
    #[cfg(feature = "redis")]
    pub(crate) fn number_of<K>(&self, ask: &Ask<K>) -> Option<usize> {
        match self.rules.get(ask.rule) {
            Some(rule) if rule.lineage == ask.lineage => Some(ask.rule),
            _ => self.rules.iter().position(|rule| rule.lineage == ask.lineage),
        }
    }

    /// Returns whether the rule of a limiter from another generation is in force with other limiters.
    #[cfg(feature = "redis")]
    pub(crate) fn has_others_for<K>(&self, ask: &Ask<K>) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.lineage != ask.lineage && rule.lineage.is_of_rule(ask.lineage))
    }

    /// Returns whether any rule has limiters with rules of their own.
    pub(crate) fn any_per_key(&self) -> bool {
        self.rules.iter().any(|rule| rule.is_per_key)
    }

    /// The part of a limiter in a step.
    #[inline]
    pub(super) fn part<'a>(&'a self, ask: &'a Ask, step: Step) -> Part<'a> {
        let (cost, step) = ask.part(step);
        let supplied = ask.values.source == ValuesSource::Request;
        let rule = ask.values.own.as_deref().or_else(|| self.own(ask));
        let fingerprint = ask.fingerprint;
        Part { fingerprint, cost, step, rule, supplied, generation: self.number }
    }

    /// The rule's own values, for a limiter that has a rule of its own.
    #[inline]
    fn own(&self, ask: &Ask) -> Option<&Rule> {
        let rules = if self.is_per_key(ask.rule) { self.policy.rules() } else { &[] };
        Some(rules.get(ask.rule)?.variant(ask.values.variant))
    }

    #[inline]
    pub(super) fn table(&self, ask: &Ask) -> Option<&TableInForce> {
        let rule = self.rules.get(ask.rule)?;
        rule.tables.get(if rule.is_per_key { 0 } else { ask.values.variant })
    }

    /// A number that orders tables the same way in all generations: by lineage, then by variant.
    #[inline]
    pub(super) fn table_number(&self, ask: &Ask) -> (Lineage, usize) {
        (ask.lineage, if self.is_per_key(ask.rule) { 0 } else { ask.values.variant })
    }

    /// The limiters of each rule and their bytes, in the order of the policy.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (&PolicyRule, KeptOfRule)> {
        self.policy.rules().iter().zip(self.rules.iter().map(TablesOfRule::kept))
    }

    /// All tables, including the tables of removed rules.
    pub(super) fn tables(&self) -> impl Iterator<Item = &TableInForce> {
        self.rules.iter().flat_map(|rule| &rule.tables).chain(&self.removed)
    }
}

impl TablesOfRule {
    fn kept(&self) -> KeptOfRule {
        let Some(table) = self.tables.first() else { return KeptOfRule::default() };
        // All tables of a rule share its budget.
        let budget = table.budget();
        let packed: usize = self.tables.iter().map(|table| table.packed_bytes()).sum();
        let bytes = budget.bytes() + packed;
        KeptOfRule { keys: budget.keys(), bytes, dropped: budget.dropped() }
    }
}
