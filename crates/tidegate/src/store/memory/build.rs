//! The choice of how to keep the states of a rule, made when its table is built.
//!
//! `known` and `alone` build here when a rule is new or has changed. The new table gets the tables that it
//! succeeds, from which limiters move to it.

use std::sync::Arc;

use tidegate_core::{Algorithm, Limit, Packing, Rule, Timestamp, Visitor};

use super::budget::Budget;
use super::packed::Packed;
use super::ruled::RuledTable;
use super::sharded::Sharded;
use super::succession::{KEPT, Succession};
use super::table::{Table, TableInForce};
use crate::rules::{RuleSpec, most_keys};

/// A table that several generations can share.
pub(super) type SharedTable = Arc<dyn Table>;

/// The settings for the tables of one rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Build<'a> {
    /// The base of packed times; `None` if the clock may step back.
    pub(super) base: Option<Timestamp>,
    pub(super) budget: &'a Arc<Budget>,
    /// When the rule takes effect.
    pub(super) at: Timestamp,
}

impl Build<'_> {
    /// Builds the table of a rule, which succeeds `old`, or keeps its limiters there if the rule is unlimited.
    pub(super) fn table(self, rule: &Rule, old: Option<&TableInForce>) -> TableInForce {
        let is_unlimited = rule.is_unlimited();
        if let Some(old) = old.filter(|_| is_unlimited) {
            // Nothing is counted now, but units may be given back, and the rest counts under the next limit.
            old.succession().serve_since(KEPT);
            return TableInForce { is_unlimited, ..old.clone() };
        }
        let old: Vec<_> = old.map(|old| Arc::clone(&old.table)).into_iter().collect();
        let succession = self.succession(rule, old.clone());
        match rule.visit(Building { build: self, succession }) {
            Some(table) => TableInForce { table, is_unlimited },
            None => TableInForce { is_unlimited, ..self.table_of_rules(rule, old) },
        }
    }

    /// Builds a table with a rule for each limiter; `usual` is the rule of keys without one.
    pub(super) fn table_of_rules(self, usual: &Rule, old: Vec<SharedTable>) -> TableInForce {
        let succession = self.succession(usual, old);
        let table = RuledTable::under(Arc::clone(self.budget), succession);
        TableInForce { table: Arc::new(table), is_unlimited: false }
    }

    fn succession(self, rule: &Rule, old: Vec<SharedTable>) -> Succession<dyn Table> {
        let meaning_of = |old: &SharedTable| match old.succession() {
            old if rule.gives_back_as(&old.rule) => old.meaning_since,
            _ => self.at,
        };
        // A limiter may come from any of the tables, so the latest change of the meaning counts for all.
        let meaning_since = old.iter().map(meaning_of).max().unwrap_or(Timestamp::EPOCH);
        let is_one_of_several = old.len() > 1;
        let rates_of = |old: &SharedTable| {
            let old = old.succession();
            let spec = old.rule.spec();
            let new = rule.spec();
            // A larger capacity before may have let more be taken at once.
            let differs = (spec.limit, spec.capacity) != (new.limit, new.capacity);
            let mut rates = old.rates.clone();
            if let Limit::Units(limit) = spec.limit
                // Several tables had several limits, and it is not known which of them a limiter had.
                && (is_one_of_several || differs)
            {
                rates.end(limit, self.at);
            }
            rates
        };
        let rates = old.iter().map(rates_of).reduce(|one, other| one.or(&other));
        let mut succession = Succession::new(rule.clone(), self.at, old);
        succession.meaning_since = meaning_since;
        succession.rates = rates.unwrap_or_default();
        succession
    }

    /// The bytes that the limiters of an `old` table would take under `rule`, and their number.
    pub(super) fn weigh(self, old: &dyn Table, rule: &Rule) -> (usize, usize) {
        let packed = self.base.map(|_| rule.visit(Packs).unwrap_or(Some(0)));
        let (bytes, limiters) = match packed.flatten() {
            // Limiters of one word are bounded by their number, and an unlimited rule counts none.
            Some(0) => return (0, 0),
            _ => old.weigh(rule, self.at),
        };
        let packed = packed.flatten().map(|each| limiters.saturating_mul(each));
        (packed.unwrap_or(bytes), limiters)
    }
}

struct Building<'a> {
    build: Build<'a>,
    succession: Succession<dyn Table>,
}

impl Visitor for Building<'_> {
    type Out = SharedTable;

    fn visit<R: Algorithm>(self, algorithm: &R) -> SharedTable {
        let Self { build, succession } = self;
        let algorithm = algorithm.clone();
        let budget = Arc::clone(build.budget);
        // A line of 64 bytes has a header of 4 and, for each limiter, a fingerprint of 12 and its words of 8.
        match (algorithm.packing(), build.base) {
            (Packing::One, Some(base)) => {
                Arc::new(Packed::<R, 3, 1>::new(algorithm, base, budget, succession))
            }
            (Packing::Two, Some(base)) => {
                Arc::new(Packed::<R, 2, 2>::new(algorithm, base, budget, succession))
            }
            (Packing::Six, Some(base)) => {
                Arc::new(Packed::<R, 1, 6>::new(algorithm, base, budget, succession))
            }
            _ => Arc::new(Sharded::of_one_rule(algorithm, budget, succession)),
        }
    }
}

/// The bytes that are counted for each packed limiter; `None` if states are not packed.
struct Packs;

impl Visitor for Packs {
    type Out = Option<usize>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Option<usize> {
        match algorithm.packing() {
            Packing::One => Some(Packed::<R, 3, 1>::BYTES),
            Packing::Two => Some(Packed::<R, 2, 2>::BYTES),
            Packing::Six => Some(Packed::<R, 1, 6>::BYTES),
            Packing::Unpacked => None,
        }
    }
}

/// Creates the budget of a rule, whose limiters also count in `whole`.
pub(super) fn budget_of(spec: &RuleSpec, whole: Option<Arc<Budget>>) -> Arc<Budget> {
    let budget = Budget::part_of(whole, most_keys(spec));
    budget.follow(spec);
    Arc::new(budget)
}
