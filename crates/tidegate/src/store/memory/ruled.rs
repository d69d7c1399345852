//! An entry with a rule of its own: the rule that last asked it.
//!
//! A step with another rule for a key carries the key's state over, so usage carries over. A denied step changes
//! nothing, unless the key's own rule has changed. Only limiters keep their rules (and each shard the last few): a
//! caller with a new rule in each call has one limiter, like any other key.

mod held;
mod own;
mod recent;
mod supplied;

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};

use tidegate_core::{Algorithm, Decision, Rule, Timestamp, TokenBucket, Visitor};

use super::budget::{Budget, Need};
use super::entry::{Change, Entry, TableRules};
use super::leaving::Left;
use super::parameters::{Parameters, bytes_beside_heap};
use super::preview::{Preview, UnlimitedPreview};
use super::sharded::Sharded;
use super::succession::Succession;
use super::table::{self, Part, Table};
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};
pub(super) use held::RuledEntry;
#[cfg(feature = "redis")]
pub(crate) use held::Single;
use held::{AnyOwn as _, Own, for_each_kind};
use recent::Recent;
use supplied::{AfterChange, Supplied};

/// A table of limiters, each with a rule of its own.
pub(super) type RuledTable = Sharded<RuledEntry>;

/// Bytes of a limiter with a rule of its own, in addition to its state in a table of one rule.
pub(super) const BYTES_OF_OWN_RULE: usize =
    bytes_beside_heap::<RuledEntry>() + Own::<TokenBucket>::BYTES;

impl RuledTable {
    /// Creates a table whose succession has the rule of keys without their own.
    pub(super) fn under(budget: Arc<Budget>, succession: Succession<dyn Table>) -> Self {
        let usual = Usual(RwLock::new(succession.rule.clone()));
        Self::new(usual, budget, succession)
    }
}

/// The rule of keys without their own, and of the overflow limiter.
#[derive(Debug)]
pub(super) struct Usual(RwLock<Rule>);

impl Usual {
    fn get(&self) -> Rule {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl TableRules<RuledEntry> for Usual {
    fn share(&self, entry: &mut Option<RuledEntry>, now: Timestamp) -> bool {
        let usual = self.get();
        if !usual.is_unlimited() {
            RuledEntry::put_under(entry, &usual, now);
        }
        !usual.is_unlimited()
    }

    /// In a step over one key, the refusal is under the rule of the overflow limiter, if there is one.
    fn refusal(&self, part: &Part<'_>, alone: bool) -> Decision {
        let usual = self.get();
        match part.rule {
            Some(rule) if !alone || usual.is_unlimited() => refusal(rule, part),
            _ => refusal(&usual, part),
        }
    }

    /// The limiter keeps its old rule until it is asked.
    fn adopt(&self, left: Left, _at: Timestamp) -> Option<RuledEntry> {
        left.rule.visit(Adopting(left.state))?
    }

    fn amend(&self, rule: &Rule) {
        let mut usual = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Equal values stay, because the table shares them.
        if *usual != *rule {
            *usual = rule.clone();
        }
    }
}

impl Entry for RuledEntry {
    type Rules = Usual;
    type Recent = Recent;

    fn new(part: &Part<'_>, recent: &mut Recent, now: Timestamp) -> Option<Self> {
        part.rule?.visit(Beginning(recent, now))
    }

    #[inline]
    fn need(&self, _rules: &Usual) -> Need {
        for_each_kind!(self, own => own.need())
    }

    #[inline]
    fn bytes(&self, _rules: &Usual) -> usize {
        for_each_kind!(self, own => own.bytes())
    }

    #[inline]
    fn is_idle(&self, _rules: &Usual, now: Timestamp) -> bool {
        for_each_kind!(self, own => own.is_idle(now))
    }

    #[inline]
    fn run(
        &mut self,
        _rules: &Usual,
        step: Step,
        cost: u64,
        now: Timestamp,
        in_place: bool,
    ) -> One {
        for_each_kind!(self, own => own.run(step, cost, now, in_place))
    }

    fn preview(
        mut entry: Option<Self>,
        _rules: &Usual,
        part: &Part<'_>,
        now: Timestamp,
    ) -> Box<dyn Preview> {
        let Some(rule) = part.rule else { return Box::new(UnlimitedPreview) };
        if let Some(mut entry) = entry.take_if(|entry| part.supplied && !entry.has_rule(rule)) {
            entry.any_mut().pass(now);
            return Box::new(AfterChange { entry, rule: rule.clone(), now, then: None });
        }
        // Its own rule takes effect with any step, so the preview begins under it.
        Self::put_under(&mut entry, rule, now);
        entry.map_or_else(|| Box::new(UnlimitedPreview) as _, |entry| entry.any().preview(now))
    }

    fn save(
        &self,
        _rules: &Usual,
        fingerprint: Option<Fingerprint>,
        now: Timestamp,
        records: &mut Records<'_, '_>,
    ) {
        self.any().save(fingerprint, now, records);
    }

    #[inline]
    fn is_under(&self, part: &Part<'_>) -> bool {
        part.rule.is_none_or(|rule| self.has_rule(rule))
    }

    /// A rule that a request supplied does not take effect by a denial.
    fn begin(
        &mut self,
        part: &Part<'_>,
        recent: &mut Recent,
        at: Timestamp,
    ) -> Option<Box<Change<Self>>> {
        // Nearly every step comes under the rule that the limiter has.
        let rule = part.rule.filter(|_| !self.is_under(part))?;
        if follows(part) {
            // The rule takes effect with any verdict, so nothing has to be undone.
            self.carry_to(rule, recent, at);
            return None;
        }
        self.any_mut().pass(at);
        if is_tried(part) {
            let seen = Supplied { entry: self, rule, recent, now: at }.look(part);
            let commits = part.step.changes_rule(part.cost);
            // It comes back after the step, unless the step takes.
            let before = std::mem::replace(self, seen.tried);
            let in_force = commits && seen.has_to_begin;
            return Some(Box::new(Change { before, seen: Some(seen.one), commits, in_force }));
        }
        // A look under the key's own rule: the limiter is put back as it was.
        let before = self.clone();
        self.carry_to(rule, &mut Recent::default(), at);
        Some(Box::new(Change { before, seen: None, commits: false, in_force: false }))
    }
}

impl RuledEntry {
    #[inline]
    fn has_rule(&self, rule: &Rule) -> bool {
        rule.visit(Comparing(self)) == Some(true)
    }

    /// Puts a limiter outside of shards under `rule`, and creates it if necessary.
    pub(super) fn put_under(entry: &mut Option<Self>, rule: &Rule, now: Timestamp) {
        let mut recent = Recent::default();
        match entry {
            None => *entry = rule.visit(Beginning(&mut recent, now)),
            Some(entry) if entry.has_rule(rule) => {}
            Some(entry) => entry.carry_to(rule, &mut recent, now),
        }
    }
}

/// Returns whether the rule takes effect only if units are taken under it.
const fn is_tried(part: &Part<'_>) -> bool {
    part.supplied && !part.step.is_unconditional()
}

/// Returns whether the rule takes effect with any decision.
const fn follows(part: &Part<'_>) -> bool {
    part.step.changes_rule(part.cost) && !is_tried(part)
}

/// The refusal of a key under a rule.
fn refusal(rule: &Rule, part: &Part<'_>) -> Decision {
    struct Refusing<'a>(&'a Part<'a>);
    impl Visitor for Refusing<'_> {
        type Out = Decision;
        fn visit<R: Algorithm>(self, algorithm: &R) -> Decision {
            table::refusal(algorithm, self.0)
        }
    }
    rule.visit(Refusing(part)).unwrap_or(Decision::UNLIMITED)
}

/// Creates a limiter without a state, once the algorithm of its rule is known.
struct Beginning<'a>(&'a mut Recent, Timestamp);

impl Visitor for Beginning<'_> {
    type Out = RuledEntry;

    fn visit<R: Algorithm>(self, algorithm: &R) -> RuledEntry {
        let Self(recent, began) = self;
        RuledEntry::under_parameters(recent.parameters(algorithm), began, None)
    }
}

/// Creates the entry of a limiter that left another table, once the algorithm of its rule is known.
struct Adopting(Box<dyn Any>);

impl Visitor for Adopting {
    type Out = Option<RuledEntry>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
        let state: Box<R::State> = self.0.downcast().ok()?;
        let parameters = Arc::new(Parameters::new(algorithm.clone()));
        Some(RuledEntry::under_parameters(parameters, Timestamp::EPOCH, Some(*state)))
    }
}

/// Compares a limiter's rule with another.
struct Comparing<'a>(&'a RuledEntry);

impl Visitor for Comparing<'_> {
    type Out = bool;

    #[inline]
    fn visit<R: Algorithm>(self, algorithm: &R) -> bool {
        self.0.under::<R>().is_some_and(|own| own.parameters.algorithm == *algorithm)
    }
}
