//! The table of a rule that is alone: its first table, or the successor after a change of the rule.
//!
//! A `KeyedLimiter` and a `Ban` have one, without a policy and generations. A call asks the first table, without a
//! look at which table is the newest; only a changed rule marks that table, and sends calls to the newest.

use std::sync::{Arc, PoisonError};

use tidegate_core::{Rule, RuleErrors, Timestamp};

use super::budget::Budget;
use super::build::{Build, budget_of};
use super::generation::Newest;
use super::migration::{sweep, too_small};
use super::preview::Preview;
use super::succession::{Moved, NEVER};
use super::sync::Mutex;
use super::table::{Part, TableInForce};
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::rules::{RuleSpec, most_bytes};
use crate::step::{One, Step};

/// The limiters of one rule. If the rule never changes, only the first table is read.
#[derive(Debug)]
pub(crate) struct Limiters {
    first: TableInForce,
    newest: Newest<TableInForce>,
    /// Locked while the rule changes.
    changing: Mutex<()>,
    budget: Arc<Budget>,
    base: Option<Timestamp>,
}

impl Limiters {
    /// Creates limiters under a rule and the caps of `spec`; `base` is the base of packed times, `None` if the clock
    /// may step back.
    pub(crate) fn new(rule: &Rule, spec: &RuleSpec, base: Option<Timestamp>) -> Self {
        let budget = budget_of(spec, None);
        let build = Build { base, budget: &budget, at: Timestamp::EPOCH };
        Self::beginning_with(build.table(rule, None), budget, base)
    }

    /// Creates limiters with a rule each; `usual` is the rule of keys without one.
    pub(crate) fn of_rules(usual: &Rule, caps: &RuleSpec) -> Self {
        let budget = budget_of(caps, None);
        let build = Build { base: None, budget: &budget, at: Timestamp::EPOCH };
        Self::beginning_with(build.table_of_rules(usual, Vec::new()), budget, None)
    }

    fn beginning_with(first: TableInForce, budget: Arc<Budget>, base: Option<Timestamp>) -> Self {
        let newest = Newest::new(first.clone());
        Self { first, newest, changing: Mutex::new(()), budget, base }
    }

    /// Puts another rule in force, with the caps of `spec`. `at` reads the clock when no step runs under the old rule
    /// any more. `published` is called before limiters are moved.
    ///
    /// # Errors
    /// Returns an error if the existing limiters would not fit in the memory that `spec` allows: the old rule stays.
    pub(crate) fn amend(
        &self,
        rule: &Rule,
        spec: &RuleSpec,
        at: impl Fn() -> Timestamp,
        published: impl FnOnce(),
    ) -> Result<(), RuleErrors> {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.table();
        let build = |at| Build { base: self.base, budget: &self.budget, at };
        let before = at();
        // Before anything changes, because an error leaves the old rule in force.
        let (bytes, limiters) = build(before).weigh(&*old, rule);
        if bytes > most_bytes(spec) {
            return Err(too_small(most_bytes(spec), bytes, limiters));
        }
        self.newest.publish(|| {
            // Marked first: a step that saw no mark came before any limiter is moved.
            old.succession().serve_since(NEVER);
            self.budget.follow(spec);
            let new = build(at()).table(rule, Some(&old));
            self.budget.largest_needs(new.bytes_of_one());
            new
        });
        published();
        let new = self.table();
        // Under an unlimited rule the limiters stay in the old table.
        // Any other table lets the old table go only when that is empty.
        if !new.is_unlimited {
            sweep(&*old, &*new);
            new.succession().end();
        }
        Ok(())
    }

    /// Puts a rule in force for the overflow limiter of a table with a rule for each limiter.
    pub(crate) fn amend_usual(&self, rule: &Rule) {
        self.first.amend(rule);
    }

    /// The table of the rule that is in force.
    pub(super) fn table(&self) -> TableInForce {
        TableInForce::clone(&self.newest.read())
    }

    /// Returns whether the early part of a [`Reading`] is used.
    pub(crate) fn reads_early(&self) -> bool {
        self.first.reads_early()
    }

    /// Limiters in existence.
    pub(crate) fn keys(&self) -> usize {
        self.budget.keys()
    }

    /// [`Table::admits`].
    #[inline]
    pub(crate) fn admits(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        early: Timestamp,
        clock: &dyn Clock,
    ) -> bool {
        // Without a read of `newest`, which costs more than the mark that the table reads in any case.
        if let Ok(admitted) = self.first.admits(fingerprint, cost, early, clock) {
            return admitted;
        }
        // The early part was read for the first table, which may not use it.
        let early = Reading::joined(early, clock).early();
        self.ask_newest(|table| table.admits(fingerprint, cost, early, clock))
    }

    /// [`Table::one`].
    #[inline(always)]
    pub(crate) fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> One {
        // Most steps are the same on every table, and are not copied.
        if part.step.is_dated() {
            return self.ask(|table| table.one(&part.dated(table.succession()), reading));
        }
        match self.first.one(part, reading) {
            Ok(one) => one,
            Err(Moved) => self.ask_newest(|table| table.one(part, reading)),
        }
    }

    /// A step on the overflow limiter, for a reservation that was taken there.
    pub(crate) fn shared(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let part = Part::alone(Fingerprint::FIRST, cost, step);
        self.ask(|table| table.one_of_overflow(&part.dated(table.succession()), reading))
    }

    /// [`Table::preview`].
    pub(crate) fn preview(&self, part: &Part<'_>, reading: Reading<'_>) -> Box<dyn Preview> {
        self.ask(|table| table.preview(part, reading))
    }

    /// [`Table::touch`].
    pub(crate) fn touch(&self, fingerprints: &[Fingerprint]) -> u64 {
        self.first.touch(fingerprints)
    }

    #[inline]
    fn ask<O>(&self, ask: impl Fn(&TableInForce) -> Result<O, Moved>) -> O {
        ask(&self.first).unwrap_or_else(|Moved| self.ask_newest(ask))
    }

    #[cold]
    fn ask_newest<O>(&self, ask: impl Fn(&TableInForce) -> Result<O, Moved>) -> O {
        self.newest.ask(ask).1
    }
}
