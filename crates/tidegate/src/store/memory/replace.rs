//! Puts a policy in force in place of another: rules are matched by domain and name, and usage carries over.
//!
//! Tables of changed rules are marked, then the new generation is published, and then the caller moves the limiters
//! that no step has moved. A step only waits while empty tables are built.

use std::sync::{Arc, PoisonError};

use tidegate_core::Timestamp;

use super::MemoryStore;
use super::generation::{MemoryGeneration, TablesOfRule};
use super::known::Known;
use super::migration::{Migrations, too_small};
use crate::rules::{
    NoSuchRule, Policy, PolicyErrors, PolicyInternals as _, PolicyRule, most_bytes, no_such_rule,
    refused,
};
use crate::step::Lineage;

/// All rules that are in force, or were and are still in use.
#[derive(Debug, Default)]
pub(super) struct Lineages {
    /// In the order of their domains and names. A list takes half the memory of a map.
    pub(super) all: Vec<Known>,
    pub(super) next: u32,
}

impl MemoryStore {
    /// Puts in force the policy that `next` makes of the current one; one change at a time. `at` reads the clock when
    /// no step runs under the old policy any more. `published` gets the rules that changed or were removed, before
    /// their limiters are moved.
    ///
    /// # Errors
    /// Returns the error of `next`, or an error if the limiters of a rule would not fit in the memory that it allows;
    /// nothing changes then.
    pub(crate) fn change<E: From<PolicyErrors>>(
        &self,
        at: impl Fn() -> Timestamp,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
        published: impl FnOnce(&[Lineage]),
    ) -> Result<(), E> {
        let mut lineages = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.newest.read().share();
        let policy = next(&before.policy)?;
        // Before anything changes, because an error leaves the old policy in force.
        lineages.have_space(self, &policy, at())?;
        // Compared before `follow` replaces the rules.
        let changed = lineages.changed_by(&policy);
        let mut migrations = Migrations::default();
        self.newest.publish(|| {
            lineages.follow(self, before.number + 1, Arc::new(policy), &at, &mut migrations)
        });
        // To move all limiters may take long, and nothing below needs the old generation.
        drop(before);
        published(&changed);
        migrations.run();
        lineages.drop_idle(self, at());
        Ok(())
    }

    /// Returns the lineage of the named rule, and keeps it as long as the store lives.
    ///
    /// # Errors
    /// Returns an error if the policy has no such rule.
    pub(crate) fn keep_lineage(&self, domain: &str, name: &str) -> Result<Lineage, NoSuchRule> {
        self.keep(domain, name, |_| ())
    }

    /// Gives each limiter of the named rule a rule of its own from now on.
    ///
    /// # Errors
    /// Returns an error if the policy has no such rule.
    pub(crate) fn keep_per_key(
        &self,
        domain: &str,
        name: &str,
        at: Timestamp,
    ) -> Result<Lineage, NoSuchRule> {
        let lineage = self.keep(domain, name, |known| known.is_planned = true)?;
        // The policy that is in force has room.
        let _ = self.change(|| at, |policy| Ok::<_, PolicyErrors>(policy.clone()), |_| ());
        Ok(lineage)
    }

    /// Puts the overflow limiters under values that are made again from the values of their rules.
    #[cfg(feature = "redis")]
    pub(crate) fn amend_overflow(&self) {
        let lineages = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        lineages.all.iter().for_each(|known| known.amend_overflow(self, &known.rule));
    }

    fn keep(
        &self,
        domain: &str,
        name: &str,
        keep: impl FnOnce(&mut Known),
    ) -> Result<Lineage, NoSuchRule> {
        let mut lineages = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        match lineages.named_mut(domain, name) {
            Some(known) if known.is_in_force => {
                known.is_kept = true;
                keep(known);
                Ok(known.of_rule.lineage)
            }
            _ => Err(no_such_rule(domain, name, self.newest.read().policy.rules())),
        }
    }
}

impl Lineages {
    /// Checks that the limiters of each changed rule fit in the memory that it then allows.
    fn have_space(
        &self,
        store: &MemoryStore,
        policy: &Policy,
        at: Timestamp,
    ) -> Result<(), PolicyErrors> {
        for (number, rule) in policy.rules().iter().enumerate() {
            let Some(known) = self.named(rule.domain(), rule.name()) else { continue };
            let (bytes, limiters) = known.bytes_under(store, rule, at);
            let cap = most_bytes(rule.spec());
            if bytes > cap {
                return Err(refused(number, rule, &too_small(cap, bytes, limiters)));
            }
        }
        Ok(())
    }

    /// The rules that a policy changes, or removes.
    fn changed_by(&self, policy: &Policy) -> Vec<Lineage> {
        let changed = self.all.iter().filter(|known| {
            let (domain, name) = known.identity();
            let next = policy.named(domain, name);
            !next.is_ok_and(|(_, next)| next.spec() == known.rule.spec())
        });
        changed.map(|known| known.of_rule.lineage).collect()
    }

    /// Marks the tables of all rules, and makes the generation of a policy; no step runs in between.
    fn follow(
        &mut self,
        store: &MemoryStore,
        number: u64,
        policy: Arc<Policy>,
        at: &impl Fn() -> Timestamp,
        migrations: &mut Migrations,
    ) -> MemoryGeneration {
        self.all.iter_mut().for_each(|known| {
            known.is_in_force = false;
            known.supersede();
        });
        let at = at();
        store.whole.cap_keys(policy.max_keys().map(|most| most.get()));
        self.begin_new(store, &policy, at);
        let rules = policy.rules().iter();
        let rules: Vec<_> =
            rules.map(|rule| self.follow_rule(store, number, rule, at, migrations)).collect();
        let removed = self.all.iter_mut().filter(|known| !known.is_in_force);
        // A rule that was removed before keeps the time of that.
        removed.for_each(|known| known.removed_at = known.removed_at.or(Some(at)));
        let removed = self.all.iter().filter(|known| !known.is_in_force);
        let removed = removed.flat_map(|known| known.of_rule.tables.iter().cloned());
        MemoryGeneration { number, policy: Arc::clone(&policy), rules, removed: removed.collect() }
    }

    fn follow_rule(
        &mut self,
        store: &MemoryStore,
        number: u64,
        rule: &PolicyRule,
        at: Timestamp,
        migrations: &mut Migrations,
    ) -> TablesOfRule {
        // The rule is there: `begin_new` added the rules of the policy.
        let (Ok(place) | Err(place)) = place_of(&self.all, rule.domain(), rule.name());
        let known = &mut self.all[place];
        if !known.has_same_limiters(store, rule) {
            // Nothing remembered of the old limiters applies to the others.
            known.of_rule.lineage = known.of_rule.lineage.with_other_limiters();
        }
        // Before the old rule is replaced, because both are compared.
        let since = known.since_under(rule, at);
        known.follow(store, rule, at, migrations);
        known.of_rule.since = since;
        let tables = known.of_rule.tables.iter();
        // Tables that stay were marked above: they may be asked again, from this generation on.
        tables.for_each(|table| table.succession().serve_since(number));
        known.of_rule.clone()
    }

    /// Adds the rules of a policy that are not known yet.
    fn begin_new(&mut self, store: &MemoryStore, policy: &Policy, at: Timestamp) {
        let mut new = Vec::new();
        for rule in policy.rules() {
            if self.named(rule.domain(), rule.name()).is_none() {
                new.push(Known::new(store, rule, Lineage::of_rule(self.next), at));
                self.next += 1;
            }
        }
        self.all.reserve_exact(new.len());
        self.all.append(&mut new);
        self.all.sort_by(|one, other| one.identity().cmp(&other.identity()));
    }

    pub(super) fn named(&self, domain: &str, name: &str) -> Option<&Known> {
        self.all.get(place_of(&self.all, domain, name).ok()?)
    }

    pub(super) fn named_mut(&mut self, domain: &str, name: &str) -> Option<&mut Known> {
        let place = place_of(&self.all, domain, name).ok()?;
        self.all.get_mut(place)
    }

    /// Drops removed rules whose limiters are all idle.
    fn drop_idle(&mut self, store: &MemoryStore, now: Timestamp) {
        self.all.retain(|known| {
            known.is_in_force
                || known.is_kept
                || !known.is_idle(now)
                || known.is_remembered(store, now)
        });
    }
}

/// The place of a rule in a list in the order of domains and names.
fn place_of(all: &[Known], domain: &str, name: &str) -> Result<usize, usize> {
    all.binary_search_by(|known| known.identity().cmp(&(domain, name)))
}
