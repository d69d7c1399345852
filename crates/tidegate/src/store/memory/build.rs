//! The choice of how to keep the states of a rule, made when its table is built.

use std::sync::Arc;

use tidegate_core::{Algorithm, Packing, Rule, Timestamp, Visitor};

use super::budget::Budget;
use super::packed::Packed;
use super::ruled::RuledTable;
use super::sharded::Sharded;
use super::succession::Succession;
use super::table::Table;
use super::unlimited::Unlimited;
use crate::rules::RuleSpec;

/// A table that several generations can share.
pub(super) type SharedTable = Arc<dyn Table>;

/// The settings for the tables of one rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Build<'a> {
    /// The base of packed times; `None` if the clock may step back.
    pub(super) base: Option<Timestamp>,
    pub(super) budget: &'a Arc<Budget>,
    /// When the rule comes in force.
    pub(super) at: Timestamp,
}

impl Build<'_> {
    /// Builds the table of a rule, which succeeds `old`.
    pub(super) fn table(self, rule: &Rule, old: Vec<SharedTable>) -> SharedTable {
        let succession = Succession::new(rule.clone(), self.at, old.clone());
        let table = rule.visit(Building { build: self, succession });
        table.unwrap_or_else(|| self.table_of_nothing(rule, old))
    }

    /// Builds a table that drops the limiters of the `old` ones, which are under `rule` or succeeded by it.
    pub(super) fn table_of_nothing(self, rule: &Rule, old: Vec<SharedTable>) -> SharedTable {
        let succession = Succession::new(rule.clone(), self.at, old);
        Arc::new(Unlimited::new(Arc::clone(self.budget), succession))
    }

    /// Builds a table with a rule for each limiter; `usual` is the rule of keys without one.
    pub(super) fn table_of_rules(self, usual: &Rule, old: Vec<SharedTable>) -> SharedTable {
        let succession = Succession::new(usual.clone(), self.at, old);
        Arc::new(RuledTable::under(Arc::clone(self.budget), succession))
    }

    /// Whether states under a rule fit into their words.
    pub(super) fn packs(self, rule: &Rule) -> bool {
        rule.visit(Packs).unwrap_or(true) && self.base.is_some()
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
        let (algorithm, budget) = (algorithm.clone(), Arc::clone(build.budget));
        match build.base.filter(|_| algorithm.packing() == Packing::One) {
            Some(base) => Arc::new(Packed::new(algorithm, base, budget, succession)),
            None => Arc::new(Sharded::of_one_rule(algorithm, budget, succession)),
        }
    }
}

struct Packs;

impl Visitor for Packs {
    type Out = bool;

    fn visit<R: Algorithm>(self, algorithm: &R) -> bool {
        algorithm.packing() == Packing::One
    }
}

/// Creates the budget of a rule, whose limiters also count in `whole`.
pub(super) fn budget_of(spec: &RuleSpec, whole: Option<Arc<Budget>>) -> Arc<Budget> {
    let budget = Budget::part_of(whole, spec.most_keys());
    budget.follow(spec);
    Arc::new(budget)
}
