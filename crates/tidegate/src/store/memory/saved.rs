//! The limiters of a store in a snapshot: written rule by rule, and taken over under the rules that are in force then.
//!
//! While they are written no policy is put in force, but decisions go on. A limiter of a rule that has changed since
//! is carried over as by a change of the policy.

use std::collections::BTreeSet;
use std::io;
use std::sync::PoisonError;

use tidegate_core::{AlgorithmKind, Rule, Spec, Timestamp};

use super::MemoryStore;
use super::alone::Limiters;
use super::known::Known;
use super::leaving::Left;
use super::table::{Restored, TableInForce};
use crate::clock::Clock;
use crate::rules::PolicyErrors;
use crate::snapshot::{
    Blocks, Cursor, Kind, Records, ScriptParameters, SnapshotLoaded, put_list, put_number,
    put_text, put_values, read_limiter, read_values,
};
use crate::step::Lineage;

/// A rule by its domain and its name.
type Identity = (String, String);
type Entries = Vec<(String, String)>;

impl MemoryStore {
    /// Writes the head and the limiters of all rules in force; returns the number of limiters.
    pub(crate) fn save(
        &self,
        blocks: &mut Blocks<'_>,
        secret: &[u64],
        clock: &dyn Clock,
    ) -> io::Result<u64> {
        // Held to the end: no policy is put in force, so no limiter moves to a table that was written already.
        let lineages = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut payload = Vec::new();
        put_number(&mut payload, clock.now().as_micros());
        put_number(&mut payload, lineages.next.into());
        put_list(&mut payload, secret.iter(), |to, word| put_number(to, *word));
        blocks.put(Kind::Head, &payload)?;
        let mut limiters = 0;
        for known in lineages.all.iter().filter(|known| known.is_in_force) {
            blocks.put(Kind::Rule, &described(known))?;
            let tables = known.of_rule.tables.iter();
            limiters += save_tables(blocks, tables, known.of_rule.is_per_key, clock)?;
        }
        Ok(limiters)
    }

    /// The lineages of all rules that are or were in force.
    pub(crate) fn lineages(&self) -> Vec<(Identity, Lineage)> {
        let lineages = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let all = lineages.all.iter();
        let all = all.map(|known| {
            let (domain, name) = known.identity();
            ((domain.to_owned(), name.to_owned()), known.of_rule.lineage)
        });
        all.collect()
    }
}

impl Limiters {
    /// Writes all limiters like the limiters of a table.
    pub(crate) fn save_all(
        blocks: &mut Blocks<'_>,
        all: [&Self; 2],
        clock: &dyn Clock,
    ) -> io::Result<u64> {
        let tables = all.map(Self::table);
        save_tables(blocks, tables.iter(), false, clock)
    }

    /// Appends the values of the rule that is in force.
    pub(crate) fn put_values(&self, to: &mut Vec<u8>) {
        put_values(to, &self.table().succession().rule);
    }
}

fn save_tables<'t>(
    blocks: &mut Blocks<'_>,
    tables: impl Iterator<Item = &'t TableInForce>,
    has_own: bool,
    clock: &dyn Clock,
) -> io::Result<u64> {
    let mut limiters = 0;
    for (number, table) in tables.enumerate() {
        let mut records = Records::of_table(blocks, number, has_own);
        table.save(clock, &mut records)?;
        limiters += records.end()?;
    }
    Ok(limiters)
}

/// A rule as the payload of its block.
fn described(known: &Known) -> Vec<u8> {
    let rule = &known.rule;
    let mut payload = Vec::new();
    put_text(&mut payload, rule.domain());
    put_text(&mut payload, rule.name());
    for number in known.of_rule.lineage.numbers() {
        put_number(&mut payload, number.into());
    }
    put_list(&mut payload, rule.spec().key.iter(), |to, name| put_text(to, name));
    payload.push(known.of_rule.is_per_key.into());
    put_list(&mut payload, 0..rule.variants(), |to, number| {
        let own = number.checked_sub(1).and_then(|number| rule.spec().overrides.get(number));
        let entries = own.map_or(&[][..], |own| &own.entries);
        put_list(to, entries.iter(), |to, (name, value)| {
            put_text(to, name);
            put_text(to, value);
        });
        // An unlimited rule keeps limiters under the values that it had before.
        let table = known.of_rule.tables.get(number).filter(|_| !known.of_rule.is_per_key);
        put_values(to, table.map_or(rule.variant(number), |table| &table.succession().rule));
    });
    payload
}

/// A rule of a snapshot.
struct SavedRule {
    identity: Identity,
    lineage: Lineage,
    key: Vec<String>,
    has_own: bool,
    /// The entries that each variant is for, and its values.
    variants: Vec<(Entries, Option<Rule>)>,
}

impl SavedRule {
    fn read(from: &mut Cursor<'_>) -> Option<Self> {
        let identity = (from.text()?.to_owned(), from.text()?.to_owned());
        let mut number = || from.number().and_then(|number| u32::try_from(number).ok());
        let lineage = Lineage::from_numbers([number()?, number()?]);
        let key = from.list(|from| Some(from.text()?.to_owned()))?;
        let has_own = from.flag()?;
        let variants = from.list(|from| {
            let entry = |from: &mut Cursor<'_>| Some((from.text()?.into(), from.text()?.into()));
            Some((from.list(entry)?, read_rule(from)?))
        })?;
        from.is_at_end().then_some(Self { identity, lineage, key, has_own, variants })
    }

    fn has_overrides_of(&self, known: &Known) -> bool {
        let entries = known.rule.spec().overrides.iter().map(|own| &own.entries);
        self.variants.iter().skip(1).map(|(entries, _)| entries).eq(entries)
    }
}

/// Reads values; the inner `None` is unlimited.
fn read_rule(from: &mut Cursor<'_>) -> Option<Option<Rule>> {
    match read_values(from)? {
        None => Some(None),
        Some(values) => rule_of(values).map(Some),
    }
}

/// Returns the rule of these values; `None` if there is none.
fn rule_of((kind, parameters, max_debt): ScriptParameters) -> Option<Rule> {
    let any = Rule::new(Spec::unlimited(AlgorithmKind::TokenBucket)).ok()?;
    let mut spec = *any.of_parameters(kind, parameters)?.spec();
    spec.max_debt = max_debt;
    Rule::new(spec).ok()
}

/// A snapshot that is being loaded into a store without limiters.
pub(crate) struct Loading<'s> {
    store: &'s MemoryStore,
    at: Timestamp,
    /// No rule of the snapshot has this number or a higher one.
    first_free: u32,
    /// The numbers of the rules so far.
    numbers: BTreeSet<u32>,
}

impl<'s> Loading<'s> {
    /// Begins to load a snapshot. Its lineages have numbers below `first_free`, so the store's own lineages get higher
    /// numbers. `None` if there are not enough numbers.
    pub(crate) fn begin(store: &'s MemoryStore, first_free: u64, at: Timestamp) -> Option<Self> {
        // Half of the numbers stay for the rules of later policies.
        let first_free = u32::try_from(first_free).ok().filter(|number| *number <= u32::MAX / 2)?;
        let mut lineages = store.changing.lock().unwrap_or_else(PoisonError::into_inner);
        lineages.next = lineages.next.checked_add(first_free)?;
        for known in &mut lineages.all {
            let [rule, limiters] = known.of_rule.lineage.numbers();
            known.of_rule.lineage = Lineage::from_numbers([rule + first_free, limiters]);
        }
        drop(lineages);
        Some(Self { store, at, first_free, numbers: BTreeSet::new() })
    }

    /// Reads a rule; returns the tables for its limiters. `None` if the payload is not a rule.
    pub(crate) fn rule(&mut self, payload: &[u8]) -> Option<Target> {
        let saved = SavedRule::read(&mut Cursor(payload))?;
        let number = saved.lineage.number_of_rule();
        // Each rule of a snapshot has a number of its own.
        if number >= self.first_free || !self.numbers.insert(number) {
            return None;
        }
        let is_kept = self.prepare(&saved);
        let lineages = self.store.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (domain, name) = &saved.identity;
        let known = lineages.named(domain, name).filter(|_| is_kept);
        let SavedRule { has_own, variants, .. } = saved;
        Some(Target {
            tables: known.map(|known| known.of_rule.tables.clone()).unwrap_or_default(),
            values: variants.into_iter().map(|(_, values)| values).collect(),
            has_own,
            is_one: known.is_some_and(|known| known.of_rule.is_per_key),
            last: None,
        })
    }

    /// Gives the rule the lineage that it had, and limiters that know their values if it is not known under which
    /// override they come now. Returns whether the store has the rule, with the same key.
    fn prepare(&self, saved: &SavedRule) -> bool {
        let mut lineages = self.store.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (domain, name) = &saved.identity;
        let known = lineages.named_mut(domain, name).filter(|known| known.is_in_force);
        let Some(known) = known else { return false };
        known.of_rule.lineage = saved.lineage;
        if known.rule.spec().key != saved.key {
            // The rule keeps its number, but limiters of another key are not its limiters.
            known.of_rule.lineage = saved.lineage.with_other_limiters();
            return false;
        }
        let need_own = saved.has_own || !saved.has_overrides_of(known);
        if need_own && !known.of_rule.is_per_key {
            known.is_planned = true;
            // Putting a policy in force locks them again.
            drop(lineages);
            self.put_in_force();
        }
        true
    }

    /// Ends with the rules in force under the lineages of the snapshot.
    pub(crate) fn end(self) {
        self.put_in_force();
    }

    /// Puts the store's policy in force again; it has room for its limiters.
    fn put_in_force(&self) {
        let same = |policy: &_| Ok::<_, PolicyErrors>(Clone::clone(policy));
        let _ = self.store.change(|| self.at, same, |_| ());
    }
}

/// The tables for the limiters of a rule or a ban of a snapshot.
#[derive(Default)]
pub(crate) struct Target {
    /// None if the limiters are dropped.
    tables: Vec<TableInForce>,
    /// The values of each table of the snapshot.
    values: Vec<Option<Rule>>,
    /// True if the limiters of the snapshot have values of their own.
    has_own: bool,
    /// True if one table is for all.
    is_one: bool,
    /// The last values that a limiter had of its own.
    last: Option<(ScriptParameters, Rule)>,
}

impl Target {
    /// The tables of a ban, without one if its limiters are dropped; `None` if there are no values of two rules.
    pub(crate) fn of_ban(from: &mut Cursor<'_>, all: Option<[&Limiters; 2]>) -> Option<Self> {
        let values = vec![read_rule(from)?, read_rule(from)?];
        let tables = all.into_iter().flatten().map(Limiters::table).collect();
        Some(Self { tables, values, ..Self::default() })
    }

    /// Takes over the limiters of a block, and counts them; `None` if the payload is not limiters.
    pub(crate) fn load(
        &mut self,
        payload: &[u8],
        at: Timestamp,
        loaded: &mut SnapshotLoaded,
    ) -> Option<()> {
        let mut from = Cursor(payload);
        let mut numbers = Vec::new();
        let number = usize::try_from(from.number()?).ok()?;
        // A table with limiters has a limit, or keeps them under the limit that it had.
        let of_table = if self.has_own { None } else { Some(self.values.get(number)?.clone()?) };
        let table = self.tables.get(if self.is_one { 0 } else { number }).cloned();
        while !from.is_at_end() {
            let (fingerprint, own) = read_limiter(&mut from, self.has_own, &mut numbers)?;
            // The overflow limiter serves keys without an override.
            let table =
                table.as_ref().filter(|_| fingerprint.is_some() || !self.is_one || number == 0);
            let Some(table) = table else {
                loaded.dropped += 1;
                continue;
            };
            let rule = match own {
                Some(own) => self.rule_of(own)?,
                None => of_table.as_ref()?,
            };
            let left = Left::restored(rule, &numbers)?;
            // An unlimited rule counts nothing.
            let restored = if table.is_unlimited {
                Restored::Idle
            } else {
                table.restore(fingerprint, left, at)
            };
            *match restored {
                Restored::Kept => &mut loaded.limiters,
                Restored::Idle => &mut loaded.idle,
                Restored::WithoutSpace => &mut loaded.without_space,
            } += 1;
        }
        Some(())
    }

    /// The rule of these values, which many limiters in a row have.
    fn rule_of(&mut self, own: ScriptParameters) -> Option<&Rule> {
        if self.last.as_ref().is_none_or(|(last, _)| *last != own) {
            self.last = Some((own, rule_of(own)?));
        }
        self.last.as_ref().map(|(_, rule)| rule)
    }
}
