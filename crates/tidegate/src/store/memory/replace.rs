//! Putting a policy in force in place of another: rules are matched by domain and name, what was used stays used.
//!
//! Tables of what changed are marked, then the new generation is published, and then the caller moves what no
//! step has met. A step waits for no more than the building of empty tables.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use tidegate_core::Timestamp;

use super::MemoryStore;
use super::budget::Budget;
use super::build::{Build, SharedTable, budget_of};
use super::generation::{Generation, TablesOfRule};
use super::migration::{drain, sweep, too_small};
use super::ruled::BYTES_OF_OWN_RULE;
use crate::rules::{NoSuchRule, Policy, PolicyErrors, PolicyRule, RuleSpec, refused};
use crate::step::Lineage;

/// What is known of all rules that are in force, or were and are still in use, by domain and name.
#[derive(Debug, Default)]
pub(super) struct Lineages {
    by_name: BTreeMap<(String, String), Known>,
    next: Lineage,
}

/// A rule with its tables.
#[derive(Debug)]
struct Known {
    rule: PolicyRule,
    budget: Arc<Budget>,
    of_rule: TablesOfRule,
    /// For how many limiters its tables have places.
    places: usize,
    is_in_force: bool,
    /// When it was removed, if it is not in force.
    removed_at: Option<Timestamp>,
    /// Whether it stays known also while it is not in force and has no limiters.
    is_kept: bool,
    /// Whether its limits are looked up for each key, whatever the policy.
    is_planned: bool,
}

/// Tables that are to be emptied, each with the one that succeeds it, if there is one.
#[derive(Default)]
struct Migrations(Vec<(SharedTable, Option<SharedTable>)>);

impl MemoryStore {
    /// Puts in force what `next` makes of the policy that is in force; one change at a time. `at` reads the clock
    /// once nobody steps under the old policy. `published` gets the rules that are others than before, or are not
    /// in force any more, before their limiters are moved.
    ///
    /// # Errors
    /// Those of `next`, or that the limiters of a rule would not fit in the memory that it allows; all stays as
    /// it was.
    pub(crate) fn change<E: From<PolicyErrors>>(
        &self,
        at: impl Fn() -> Timestamp,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
        published: impl FnOnce(&[Lineage]),
    ) -> Result<(), E> {
        let mut lineages = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.newest.read().share();
        let policy = next(&before.policy)?;
        lineages.have_room(self, &policy, at())?;
        let changed = lineages.changed_by(&policy);
        let mut migrations = Migrations::default();
        self.newest.publish(|| {
            lineages.follow(self, before.number + 1, Arc::new(policy), &at, &mut migrations)
        });
        drop(before);
        published(&changed);
        migrations.run();
        lineages.drop_idle(at());
        Ok(())
    }

    /// Returns what the named rule is known by, from now on for as long as the store lives.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub(crate) fn keep_lineage(&self, domain: &str, name: &str) -> Result<Lineage, NoSuchRule> {
        self.keep(domain, name, |_| ())
    }

    /// Has the limiters of a rule each have a rule of its own from now on.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub(crate) fn keep_per_key(
        &self,
        domain: &str,
        name: &str,
        at: Timestamp,
    ) -> Result<Lineage, NoSuchRule> {
        let lineage = self.keep(domain, name, |known| known.is_planned = true)?;
        // What is in force has room.
        let _ = self.change(|| at, |policy| Ok::<_, PolicyErrors>(policy.clone()), |_| ());
        Ok(lineage)
    }

    fn keep(
        &self,
        domain: &str,
        name: &str,
        keep: impl FnOnce(&mut Known),
    ) -> Result<Lineage, NoSuchRule> {
        let mut lineages = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        match lineages.by_name.get_mut(&(domain.to_owned(), name.to_owned())) {
            Some(known) if known.is_in_force => {
                known.is_kept = true;
                keep(known);
                Ok(known.of_rule.lineage)
            }
            _ => Err(NoSuchRule::new(domain, name, self.newest.read().policy.rules())),
        }
    }
}

impl Lineages {
    /// Whether the limiters of each rule that changes fit in the memory that it then allows.
    fn have_room(
        &self,
        store: &MemoryStore,
        policy: &Policy,
        at: Timestamp,
    ) -> Result<(), PolicyErrors> {
        for (number, rule) in policy.rules().iter().enumerate() {
            let Some(known) = self.by_name.get(&identity(rule)) else { continue };
            let (bytes, limiters) = known.bytes_under(store, rule, at);
            let cap = rule.spec().most_bytes();
            if bytes > cap {
                return Err(refused(number, rule, &too_small(cap, bytes, limiters)));
            }
        }
        Ok(())
    }

    /// The rules that a policy changes, or removes.
    fn changed_by(&self, policy: &Policy) -> Vec<Lineage> {
        let stays = |known: &Known| {
            let next = policy.named(known.rule.domain(), known.rule.name());
            next.is_ok_and(|(_, next)| next.spec() == known.rule.spec())
        };
        let changed = self.by_name.values().filter(|known| !stays(known));
        changed.map(|known| known.of_rule.lineage).collect()
    }

    /// Marks the tables of what changes, and makes the generation of a policy; nobody steps in between.
    fn follow(
        &mut self,
        store: &MemoryStore,
        number: u64,
        policy: Arc<Policy>,
        at: &impl Fn() -> Timestamp,
        migrations: &mut Migrations,
    ) -> Generation {
        let all = self.by_name.values_mut();
        all.for_each(|known| {
            known.is_in_force = false;
            known.supersede();
        });
        let at = at();
        store.whole.cap_keys(policy.max_keys().map(|most| most.get()));
        let rules = policy.rules().iter();
        let rules: Vec<_> =
            rules.map(|rule| self.follow_rule(store, number, rule, at, migrations)).collect();
        let removed = self.by_name.values_mut().filter(|known| !known.is_in_force);
        removed.for_each(|known| known.removed_at = known.removed_at.or(Some(at)));
        let removed = self.by_name.values().filter(|known| !known.is_in_force);
        let removed = removed.flat_map(|known| known.of_rule.tables.iter().flatten().cloned());
        Generation { number, policy: Arc::clone(&policy), rules, removed: removed.collect() }
    }

    fn follow_rule(
        &mut self,
        store: &MemoryStore,
        number: u64,
        rule: &PolicyRule,
        at: Timestamp,
        migrations: &mut Migrations,
    ) -> TablesOfRule {
        let next = &mut self.next;
        let known = self.by_name.entry(identity(rule)).or_insert_with(|| {
            let lineage = *next;
            *next += 1;
            Known::new(store, rule, lineage, at)
        });
        if !known.has_same_key(rule) && !known.is_kept {
            // Its limiters are others, and what is remembered of the old ones says nothing of them.
            (known.of_rule.lineage, *next) = (*next, *next + 1);
        }
        known.follow(store, rule, at, migrations);
        known.of_rule.tables.iter().flatten().for_each(|table| {
            table.succession().serve_since(number);
        });
        known.of_rule.clone()
    }

    /// Drops removed rules whose limiters are all idle.
    fn drop_idle(&mut self, now: Timestamp) {
        let is_needed = |known: &Known| {
            known.is_in_force || known.is_kept || !known.is_idle(now) || known.may_be_repeated(now)
        };
        self.by_name.retain(|_, known| is_needed(known));
    }
}

impl Known {
    fn new(store: &MemoryStore, rule: &PolicyRule, lineage: Lineage, at: Timestamp) -> Self {
        let budget = budget_of(rule.spec(), Some(Arc::clone(&store.whole)));
        let build = Build { base: store.base, budget: &budget, at };
        let is_per_key = (store.is_per_key)(rule.spec());
        let tables = match is_per_key {
            true => vec![Some(build.table_of_rules(rule.variant(0), Vec::new()))],
            false => variants(rule).map(|rule| build.table(rule, Vec::new())).collect(),
        };
        let of_rule = TablesOfRule { lineage, tables, is_per_key };
        let (rule, places) = (rule.clone(), budget.most_keys());
        let (is_kept, is_planned) = (false, false);
        let (is_in_force, removed_at) = (true, None);
        Self { rule, budget, of_rule, places, is_in_force, removed_at, is_kept, is_planned }
    }

    fn supersede(&self) {
        self.of_rule.tables.iter().flatten().for_each(|table| table.succession().supersede());
    }

    /// Bytes that the limiters which are to be moved would take under `rule`, and how many they are.
    fn bytes_under(&self, store: &MemoryStore, rule: &PolicyRule, at: Timestamp) -> (usize, usize) {
        if self.of_rule.is_per_key || !self.has_same_key(rule) {
            return (0, 0);
        }
        let build = Build { base: store.base, budget: &self.budget, at };
        let become_per_key = self.wants_rules_per_key(store, rule);
        let of_own = if become_per_key { BYTES_OF_OWN_RULE } else { 0 };
        let variants = self.of_rule.tables.iter().enumerate();
        let moved = variants.filter_map(|(variant, old)| {
            let is_moved =
                become_per_key || !self.keeps(variant, rule) && !build.packs(rule.variant(variant));
            let (bytes, count) =
                old.as_ref().filter(|_| is_moved)?.weigh(rule.variant(variant), at);
            Some((bytes.saturating_add(count.saturating_mul(of_own)), count))
        });
        moved.fold((0, 0), |(bytes, limiters), (more, count)| {
            (bytes.saturating_add(more), limiters + count)
        })
    }

    /// Whether limiters are known by the same fingerprints as before.
    fn has_same_key(&self, rule: &PolicyRule) -> bool {
        self.rule.spec().key == rule.spec().key
    }

    /// Whether limiters have to have rules of their own: of one whose fingerprint alone is known, nobody knows
    /// which override it is under once there are others.
    fn wants_rules_per_key(&self, store: &MemoryStore, rule: &PolicyRule) -> bool {
        self.is_planned || (store.is_per_key)(rule.spec()) || !self.rule.has_overrides_of(rule)
    }

    /// Whether the table of a variant goes on under `rule`.
    fn keeps(&self, variant: usize, rule: &PolicyRule) -> bool {
        self.rule.variant(variant).spec() == rule.variant(variant).spec()
    }

    /// Becomes `rule`, with the tables that go on and those that succeed the others.
    fn follow(
        &mut self,
        store: &MemoryStore,
        rule: &PolicyRule,
        at: Timestamp,
        migrations: &mut Migrations,
    ) {
        if !self.has_same_key(rule) {
            let lineage = self.of_rule.lineage;
            let Self { is_kept, is_planned, .. } = *self;
            let fresh = Self { is_kept, is_planned, ..Self::new(store, rule, lineage, at) };
            let old = std::mem::replace(self, fresh).of_rule.tables;
            migrations.0.extend(old.into_iter().flatten().map(|old| (old, None)));
            self.become_per_key(store, rule, at, migrations);
            return;
        }
        self.budget.follow(rule.spec());
        let has_places = self.budget.most_keys() <= self.places;
        if self.of_rule.is_per_key {
            self.of_rule.tables.iter().flatten().for_each(|table| table.amend(rule.variant(0)));
        } else if self.wants_rules_per_key(store, rule) {
            self.become_per_key(store, rule, at, migrations);
        } else {
            let build = Build { base: store.base, budget: &self.budget, at };
            let tables = self.of_rule.tables.iter().enumerate().map(|(variant, old)| {
                if has_places && self.keeps(variant, rule) {
                    return old.clone();
                }
                let new = build.table(rule.variant(variant), old.clone().into_iter().collect());
                migrations.0.extend(old.clone().map(|old| (old, new.clone())));
                new
            });
            self.of_rule.tables = tables.collect();
            let most = self.budget.most_keys();
            self.places = if has_places { self.places.min(most) } else { most };
        }
        let tables = self.of_rule.tables.iter().flatten();
        self.budget.largest_needs(tables.map(|table| table.bytes_of_one()).max().unwrap_or(0));
        (self.rule, self.is_in_force, self.removed_at) = (rule.clone(), true, None);
    }

    /// Has one table for all variants from now on, if it has to.
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
        let old: Vec<_> = self.of_rule.tables.iter().flatten().cloned().collect();
        let new = build.table_of_rules(rule.variant(0), old.clone());
        migrations.0.extend(old.into_iter().map(|old| (old, Some(Arc::clone(&new)))));
        (self.of_rule.tables, self.of_rule.is_per_key) = (vec![Some(new)], true);
    }

    /// Whether requests that it answered under an id may still be answered the same, if it is added back.
    fn may_be_repeated(&self, now: Timestamp) -> bool {
        let dedupe = self.rule.spec().dedupe;
        self.removed_at.zip(dedupe).is_some_and(|(since, time)| now < since.plus(time))
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        let tables = self.of_rule.tables.iter().flatten();
        let in_use = tables.filter(|table| !table.is_idle(now)).count();
        in_use == 0
    }
}

impl Migrations {
    /// Moves what no step has met.
    fn run(self) {
        for (old, new) in &self.0 {
            match new {
                Some(new) => sweep(old, new),
                None => drain(old),
            }
        }
        let new = self.0.iter().filter_map(|(_, new)| new.as_ref());
        new.for_each(|new| new.succession().end());
    }
}

fn identity(rule: &PolicyRule) -> (String, String) {
    (rule.domain().to_owned(), rule.name().to_owned())
}

fn variants(rule: &PolicyRule) -> impl Iterator<Item = &tidegate_core::Rule> {
    (0..rule.variants()).map(|number| rule.variant(number))
}

impl PolicyRule {
    /// Whether another rule has overrides for the same entries, in the same order.
    fn has_overrides_of(&self, other: &Self) -> bool {
        fn entries(rule: &RuleSpec) -> impl Iterator<Item = &Vec<(String, String)>> {
            rule.overrides.iter().map(|one| &one.entries)
        }
        entries(self.spec()).eq(entries(other.spec()))
    }
}
