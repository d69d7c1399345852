//! A generation: a policy that was put in force, and the tables of its rules.
//!
//! A gate reads the newest generation for each request, and the request is decided by it. It never changes, so a
//! request sees one policy from beginning to end, and an answer can keep it.
//!
//! [`Newest`] is read without a write to memory that threads share. The tables of the old generation are marked before
//! the new generation is published, so that a step that meets a mark asks the new generation.

use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, PoisonError};

use tidegate_core::{Rule, Timestamp};

use super::succession::{GenerationNumber, Moved};
use super::sync::RwLock;
use super::table::{Part, TableInForce};
use crate::rules::{Policy, PolicyRule};
use crate::step::{Ask, Lineage, Step, ValuesSource};
#[cfg(feature = "redis")]
use tidegate_store::contract::{Generation, RuleInForce};

/// A policy and its tables. Never changed once it is in force.
pub(crate) struct MemoryGeneration {
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
impl fmt::Debug for MemoryGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, policy, .. } = self;
        f.debug_struct("MemoryGeneration").field("number", number).field("policy", policy).finish()
    }
}

impl MemoryGeneration {
    /// Returns the policy and its rules without their tables, as stores and layers know them.
    #[cfg(feature = "redis")]
    pub(crate) fn without_tables(&self) -> Arc<Generation> {
        let rules = self.rules.iter();
        let rules = rules.map(|rule| RuleInForce { lineage: rule.lineage, since: rule.since });
        Arc::new(Generation::new(Arc::clone(&self.policy), rules.collect()))
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
        let rule = ask.values.own.as_ref().or_else(|| self.own(ask));
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

/// A value that is replaced now and then.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    value: Value<T>,
    /// Locked to publish another value, from before the tables of the old value are marked.
    publishing: RwLock<()>,
}

#[cfg(not(loom))]
type Value<T> = arc_swap::ArcSwap<T>;
/// The model checker sees each access to it.
#[cfg(loom)]
type Value<T> = RwLock<Arc<T>>;

#[cfg(not(loom))]
type Held<T> = arc_swap::Guard<Arc<T>>;
#[cfg(loom)]
type Held<T> = Arc<T>;

/// A value that was the newest when it was read. It stays until this is dropped.
pub(crate) struct Kept<T>(Held<T>);

impl<T> Deref for Kept<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

// A `Kept` is only read, and the locks of tables are sound after a panic.
impl<T> UnwindSafe for Kept<T> {}
impl<T> RefUnwindSafe for Kept<T> {}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self::from(self.share())
    }
}

impl<T: fmt::Debug> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> From<Arc<T>> for Kept<T> {
    fn from(value: Arc<T>) -> Self {
        #[cfg(not(loom))]
        let value = Held::from_inner(value);
        Self(value)
    }
}

impl<T> Kept<T> {
    /// Returns a shared handle for longer use, at the cost of a count that threads share.
    pub(crate) fn share(&self) -> Arc<T> {
        let value: &Arc<T> = &self.0;
        Arc::clone(value)
    }
}

impl<T> Newest<T> {
    pub(crate) fn new(first: T) -> Self {
        let value = Arc::new(first);
        Self { value: Value::from(value), publishing: RwLock::new(()) }
    }

    /// The newest value.
    #[inline]
    pub(crate) fn read(&self) -> Kept<T> {
        #[cfg(not(loom))]
        let held = self.value.load();
        #[cfg(loom)]
        let held = Arc::clone(&self.value.read().unwrap_or_else(PoisonError::into_inner));
        Kept(held)
    }

    /// Asks the newest value, and again a newer one if the value reports that there is one, or will be; returns the
    /// reply with the value that gave it.
    #[inline]
    pub(super) fn ask<O>(&self, ask: impl Fn(&T) -> Result<O, Moved>) -> (Kept<T>, O) {
        loop {
            let value = self.read();
            if let Ok(reply) = ask(&value) {
                return (value, reply);
            }
            self.wait_for_newer();
        }
    }

    /// Waits until the value that a step reported is published.
    #[cold]
    pub(super) fn wait_for_newer(&self) {
        drop(self.publishing.read().unwrap_or_else(PoisonError::into_inner));
    }

    /// Publishes the value that `make` makes; `make` may mark the tables of the old value.
    pub(crate) fn publish(&self, make: impl FnOnce() -> T) {
        let publishing = self.publishing.write().unwrap_or_else(PoisonError::into_inner);
        // Locked already: a step that meets a mark made here waits until the value is published.
        let value = Arc::new(make());
        #[cfg(not(loom))]
        self.value.store(value);
        #[cfg(loom)]
        {
            *self.value.write().unwrap_or_else(PoisonError::into_inner) = value;
        }
        drop(publishing);
    }
}
