//! A rule by its lineage: in force or removed, with its tables and their successors when it changes.
//!
//! `replace` has one for each domain and name, and tells it the next rule; it decides which of its tables stay.

use std::sync::Arc;

use tidegate_core::{Micros, Timestamp};

use super::MemoryStore;
use super::budget::Budget;
use super::build::{Build, budget_of};
use super::generation::TablesOfRule;
use super::migration::Migrations;
use super::ruled::BYTES_OF_OWN_RULE;
use super::succession::NEVER;
use crate::rules::{PolicyRule, RuleSpec};
use crate::step::Lineage;

/// A rule with its tables.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) rule: PolicyRule,
    pub(super) budget: Arc<Budget>,
    pub(super) of_rule: TablesOfRule,
    /// The number of limiters that its tables have room for.
    pub(super) places: usize,
    pub(super) is_in_force: bool,
    /// When it was removed, if it is not in force.
    pub(super) removed_at: Option<Timestamp>,
    /// True if its lineage is kept even without limiters and out of force.
    pub(super) is_kept: bool,
    /// True if plans are looked up for each key, with any policy.
    pub(super) is_planned: bool,
}

impl Known {
    pub(super) fn new(
        store: &MemoryStore,
        rule: &PolicyRule,
        lineage: Lineage,
        at: Timestamp,
    ) -> Self {
        let budget = budget_of(rule.spec(), Some(Arc::clone(&store.whole)));
        let build = Build { base: store.base, budget: &budget, at };
        let is_per_key = store.per_key.has(rule.spec());
        let tables = if is_per_key {
            vec![build.table_of_rules(&store.per_key.usual(rule), Vec::new())]
        } else {
            variants(rule).map(|rule| build.table(rule, None)).collect()
        };
        Self {
            rule: rule.clone(),
            places: budget.most_keys(),
            budget,
            of_rule: TablesOfRule { lineage, tables, is_per_key, since: at },
            is_in_force: true,
            removed_at: None,
            is_kept: false,
            is_planned: false,
        }
    }

    /// Its domain and its name.
    pub(super) fn identity(&self) -> (&str, &str) {
        (self.rule.domain(), self.rule.name())
    }

    pub(super) fn supersede(&self) {
        self.of_rule.tables.iter().for_each(|table| table.succession().serve_since(NEVER));
    }

    /// Returns the bytes that the limiters to be moved would take under `rule`, and their number.
    pub(super) fn bytes_under(
        &self,
        store: &MemoryStore,
        rule: &PolicyRule,
        at: Timestamp,
    ) -> (usize, usize) {
        // Limiters that stay where they are need no more room, and limiters that are dropped need none.
        if self.of_rule.is_per_key || !self.has_same_limiters(store, rule) {
            return (0, 0);
        }
        let build = Build { base: store.base, budget: &self.budget, at };
        let become_per_key = self.wants_rules_per_key(store, rule);
        let of_own = if become_per_key { BYTES_OF_OWN_RULE } else { 0 };
        let mut bytes = 0_usize;
        let mut limiters = 0;
        for (variant, old) in self.of_rule.tables.iter().enumerate() {
            let next = rule.variant(variant);
            // In a single table for all variants no state is packed.
            let (moved, count) = if become_per_key {
                old.weigh(next, at)
            } else if self.keeps(variant, rule) {
                continue;
            } else {
                build.weigh(&**old, next)
            };
            let own = count.saturating_mul(of_own);
            bytes = bytes.saturating_add(moved).saturating_add(own);
            limiters += count;
        }
        (bytes, limiters)
    }

    /// Returns whether `rule` keeps the limiters: if it has the same key, and in a shared store also the same hash tag.
    pub(super) fn has_same_limiters(&self, store: &MemoryStore, rule: &PolicyRule) -> bool {
        let old = self.rule.spec();
        let new = rule.spec();
        old.key == new.key && (!store.per_key.is_shares() || old.hash_tag == new.hash_tag)
    }

    /// Returns whether limiters need rules of their own: the override of a limiter is unknown from its fingerprint if
    /// the overrides change.
    fn wants_rules_per_key(&self, store: &MemoryStore, rule: &PolicyRule) -> bool {
        self.is_planned || store.per_key.has(rule.spec()) || !have_same_overrides(&self.rule, rule)
    }

    /// Returns whether the table of a variant stays under `rule`.
    fn keeps(&self, variant: usize, rule: &PolicyRule) -> bool {
        self.rule.variant(variant).spec() == rule.variant(variant).spec()
    }

    /// Becomes `rule`: tables with the same values stay, other tables get successors.
    pub(super) fn follow(
        &mut self,
        store: &MemoryStore,
        rule: &PolicyRule,
        at: Timestamp,
        migrations: &mut Migrations,
    ) {
        if !self.has_same_limiters(store, rule) {
            let lineage = self.of_rule.lineage;
            let Self { is_kept, is_planned, .. } = *self;
            let fresh = Self { is_kept, is_planned, ..Self::new(store, rule, lineage, at) };
            let old = std::mem::replace(self, fresh);
            // The fingerprints of the old limiters are of other keys: nothing can be carried over.
            migrations.ended.extend(old.of_rule.tables);
            self.become_per_key(store, rule, at, migrations);
            return;
        }
        self.budget.follow(rule.spec());
        // A packed table has lines for the largest number of keys that it was built for; for more, it needs a successor.
        let has_places = self.budget.most_keys() <= self.places;
        if self.of_rule.is_per_key {
            self.amend_overflow(store, rule);
        } else if self.wants_rules_per_key(store, rule) {
            self.become_per_key(store, rule, at, migrations);
        } else {
            let build = Build { base: store.base, budget: &self.budget, at };
            let tables = self.of_rule.tables.iter().enumerate().map(|(variant, old)| {
                if has_places && self.keeps(variant, rule) {
                    return old.clone();
                }
                let new = build.table(rule.variant(variant), Some(old));
                // Under an unlimited rule the limiters stay where they are.
                if !new.is_unlimited {
                    migrations.succeeded.push((old.clone(), new.clone()));
                }
                new
            });
            self.of_rule.tables = tables.collect();
            self.places = self.budget.most_keys();
        }
        let tables = self.of_rule.tables.iter();
        self.budget.largest_needs(tables.map(|table| table.bytes_of_one()).max().unwrap_or(0));
        (self.rule, self.is_in_force, self.removed_at) = (rule.clone(), true, None);
    }

    /// When the values of `rule` took effect, if `rule` takes effect at `at`.
    pub(super) fn since_under(&self, rule: &PolicyRule, at: Timestamp) -> Timestamp {
        let since = self.of_rule.since;
        let old = self.rule.spec();
        let new = rule.spec();
        let stays =
            self.removed_at.is_none() && (old.spec, &old.overrides) == (new.spec, &new.overrides);
        if stays { since } else { at.max(since.plus(Micros::from_micros(1))) }
    }

    /// Puts the overflow limiter under the values of `rule`.
    pub(super) fn amend_overflow(&self, store: &MemoryStore, rule: &PolicyRule) {
        if self.of_rule.is_per_key {
            let usual = store.per_key.usual(rule);
            self.of_rule.tables.iter().for_each(|table| table.amend(&usual));
        }
    }

    /// Moves to one table for all variants, if limiters need rules of their own.
    fn become_per_key(
        &mut self,
        store: &MemoryStore,
        rule: &PolicyRule,
        at: Timestamp,
        migrations: &mut Migrations,
    ) {
        if self.of_rule.is_per_key || !self.wants_rules_per_key(store, rule) {
            return;
        }
        let build = Build { base: store.base, budget: &self.budget, at };
        let old = std::mem::take(&mut self.of_rule.tables);
        let tables = old.iter().map(|old| Arc::clone(&old.table)).collect();
        let new = build.table_of_rules(&store.per_key.usual(rule), tables);
        migrations.succeeded.extend(old.into_iter().map(|old| (old, new.clone())));
        (self.of_rule.tables, self.of_rule.is_per_key) = (vec![new], true);
    }

    /// Returns whether the removed rule would still matter if it was added back: a remembered answer may be repeated,
    /// or another node may use a limiter.
    pub(super) fn is_remembered(&self, store: &MemoryStore, now: Timestamp) -> bool {
        let dedupe = self.rule.spec().dedupe.unwrap_or_default().into();
        let time = store.per_key.unseen_for(&self.rule).max(dedupe);
        self.removed_at.is_some_and(|since| now < since.plus(time))
    }

    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        // All tables are asked, also after a table in use, because asking drops idle limiters.
        let mut is_idle = true;
        for table in &self.of_rule.tables {
            is_idle &= table.is_idle(now);
        }
        is_idle
    }
}

fn variants(rule: &PolicyRule) -> impl Iterator<Item = &tidegate_core::Rule> {
    (0..rule.variants()).map(|number| rule.variant(number))
}

/// Returns whether two rules have overrides for the same entries, in the same order.
fn have_same_overrides(one: &PolicyRule, other: &PolicyRule) -> bool {
    fn entries(rule: &RuleSpec) -> impl Iterator<Item = &Vec<(String, String)>> {
        rule.overrides.iter().map(|one| &one.entries)
    }
    entries(one.spec()).eq(entries(other.spec()))
}
