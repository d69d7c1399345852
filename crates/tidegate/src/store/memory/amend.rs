//! Rules that are changed while their tables decide: what follows each table, and steps over several.
//!
//! A table that was never changed is asked without a look at this. One that was is closed for good, and a
//! step that meets a closed part of it holds what follows: a reader's lock for each rule that was changed,
//! in the order of the tables, before any limiter is held. Who changes a rule takes the writers' locks of
//! its variants, in the same order, and then closes their tables. So nobody who holds a limiter waits for
//! such a lock, and whoever waits for one holds only locks that come before it: no two wait for each other.

use std::sync::{Arc, PoisonError};

use tidegate_core::{Rule, RuleErrors, Timestamp};

use super::budget::Budget;
use super::follow::{Followed, follow};
use super::later::{Current, Later};
use super::sync::{RwLock, RwLockReadGuard};
use super::table::{Build, Hold, Table};
use super::{MemoryStore, OfTable, budget_of, hold_all};
use crate::clock::Reading;
use crate::rules::{Policy, PolicyRule, RuleSpec};
use crate::step::{Decided, Done, Met, Step};

/// What follows the tables of one rule.
#[derive(Debug)]
pub(super) struct Changes {
    /// By variant.
    laters: Vec<Arc<Later<dyn Table>>>,
    /// What counts the limiters of all variants.
    budget: RwLock<Arc<Budget>>,
}

impl Changes {
    /// For a rule that was not changed yet.
    pub(super) fn none_yet(laters: Vec<Arc<Later<dyn Table>>>, budget: Arc<Budget>) -> Self {
        Self { laters, budget: RwLock::new(budget) }
    }

    /// For a rule whose table is another from now on: `whole` counts the limiters of before no more.
    pub(super) fn start_fresh(&mut self, whole: Option<&Budget>, budget: Arc<Budget>) {
        whole.iter().for_each(|whole| whole.release(self.keys()));
        *self = Self::none_yet(vec![Later::none_yet()], budget);
    }

    fn keys(&self) -> usize {
        self.budget.read().unwrap_or_else(PoisonError::into_inner).keys()
    }
}

impl Later<dyn Table> {
    /// Puts `rule` in force in place of that of `first`, or of what followed it.
    ///
    /// # Errors
    /// The limiters there are would not fit in the memory that `spec` allows: the old rule stays.
    pub(crate) fn amend(
        &self,
        first: Option<&(dyn Table + 'static)>,
        rule: &Rule,
        spec: &RuleSpec,
        base: Option<Timestamp>,
        reading: Reading<'_>,
    ) -> Result<(), RuleErrors> {
        let budget = budget_of(spec, None);
        let build = Build { base, budget: &budget, on_full: spec.on_full, later: Self::none_yet() };
        self.change(first, |last| {
            let closed = vec![last.and_then(|table| table.close())];
            let Followed { heirs, told, .. } = follow(closed, &[rule], &build, reading.anew());
            (heirs.into_iter().next().and_then(|heir| heir.table), told)
        })
    }
}

impl MemoryStore {
    /// Puts the figures of `rule` in force in place of those of the rule with this number, for all of its
    /// variants at once.
    ///
    /// # Errors
    /// The limiters there are would not fit in the memory that the rule allows: all stays as it was.
    pub(crate) fn amend(
        &self,
        number: usize,
        rule: &PolicyRule,
        reading: Reading<'_>,
    ) -> Result<(), RuleErrors> {
        let (Some(tables), Some(changes)) = (self.tables.get(number), self.changes.get(number))
        else {
            return Ok(());
        };
        if self.is_figured(number) {
            // Each other limiter follows when it is next asked.
            tables.iter().flatten().for_each(|table| table.amend(rule.variant(0)));
            return Ok(());
        }
        let mut counted = changes.budget.write().unwrap_or_else(PoisonError::into_inner);
        let mut current: Vec<_> = changes.laters.iter().map(|later| later.write()).collect();
        let in_force = current.iter().zip(&changes.laters).zip(tables);
        let closed = in_force.map(|((current, later), table)| {
            let last = if later.has_begun() { &current.limiters } else { table };
            last.as_deref().and_then(|table| table.close())
        });
        let closed: Vec<_> = closed.collect();
        let rules: Vec<_> = (0..rule.variants()).map(|variant| rule.variant(variant)).collect();
        let (base, spec) = (self.base, rule.spec());
        let budget = budget_of(spec, self.shared.clone());
        let build =
            Build { base, budget: &budget, on_full: spec.on_full, later: Later::none_yet() };
        let Followed { heirs, budget, told } = follow(closed, &rules, &build, reading.anew());
        *counted = budget;
        for (((current, later), heir), rule) in
            current.iter_mut().zip(&changes.laters).zip(heirs).zip(rules)
        {
            current.limiters = heir.table;
            if told.is_ok() {
                current.rule = Some(Arc::new(rule.clone()));
            }
            later.begin();
        }
        told
    }

    /// Limiters in existence, over all rules.
    pub(crate) fn keys(&self) -> usize {
        self.changes.iter().map(Changes::keys).sum()
    }

    /// The figures of a limiter where its rule was changed; waits for a change that is under way.
    pub(crate) fn figures(&self, met: &Met) -> Option<Arc<Rule>> {
        self.later(met)?.read().rule.clone()
    }

    /// Whether a limiter is still under the figures that decided, those of `policy` where none are told.
    pub(crate) fn is_still(&self, policy: &Policy, met: &Met, decided: &Decided) -> bool {
        let in_force = self.figures(met);
        if in_force.is_none() && decided.figures.is_none() {
            return true;
        }
        let own = policy.rules().get(met.rule).map(|rule| rule.variant(met.variant));
        let spec =
            |figures: &Option<Arc<Rule>>| figures.as_deref().or(own).map(|rule| *rule.spec());
        spec(&in_force) == spec(&decided.figures)
    }

    /// Whether a variant of a rule was ever changed.
    pub(crate) fn was_changed(&self, rule: usize, variant: usize) -> bool {
        self.later_of(rule, variant).is_some()
    }

    /// What follows the table of a limiter, if its rule was changed.
    pub(super) fn later(&self, met: &Met) -> Option<&Later<dyn Table>> {
        self.later_of(met.rule, met.variant)
    }

    fn later_of(&self, rule: usize, variant: usize) -> Option<&Later<dyn Table>> {
        let later = self.changes.get(rule)?.laters.get(variant)?;
        Some(&**later).filter(|later| later.has_begun())
    }

    /// Looks for limiters that can go in one table, by its number over all.
    #[cold]
    pub(super) fn tidy_one(&self, number: usize, now: Timestamp) {
        let all = self.tables.iter().zip(&self.changes);
        let mut all = all.flat_map(|(tables, changes)| tables.iter().zip(&changes.laters));
        let Some((table, later)) = all.nth(number) else { return };
        if later.has_begun() {
            later.tidy(now);
        } else if let Some(table) = table {
            table.tidy(now);
        }
    }

    /// Holds all limiters, whatever rules were changed, and hands them to `run`.
    #[cold]
    pub(super) fn with_changed<O>(
        &self,
        by_table: &[OfTable<'_>],
        now: Timestamp,
        run: impl FnOnce(Vec<Box<dyn Hold + '_>>, &InForce<'_>) -> O,
    ) -> O {
        let mut changed: Vec<_> =
            by_table.iter().map(|(met, _)| self.later(met).is_some()).collect();
        loop {
            let in_force = self.in_force(by_table, &changed);
            let tables =
                in_force.0.iter().enumerate().filter_map(|(number, (of_table, current))| {
                    let table = match current {
                        Some(current) => Some(current.limiters.as_deref()?),
                        None => self.table(of_table.0),
                    };
                    Some((number, table, &*of_table.1))
                });
            match hold_all(tables, now) {
                Ok(holds) => return run(holds, &in_force),
                // It was closed since; what follows it is waited for.
                Err(closed) => changed.iter_mut().skip(closed).take(1).for_each(|one| *one = true),
            }
        }
    }

    /// What is in force for each of these tables; of those that were `changed`, held.
    fn in_force<'a>(&'a self, by_table: &'a [OfTable<'_>], changed: &[bool]) -> InForce<'a> {
        let laters = by_table.iter().zip(changed).map(|(of_table, changed)| {
            let later = || self.changes.get(of_table.0.rule)?.laters.get(of_table.0.variant);
            (of_table, later().filter(|_| *changed).map(|later| later.read()))
        });
        InForce(laters.collect())
    }
}

/// A reader's lock on what follows a table.
type Reader<'a> = RwLockReadGuard<'a, Current<dyn Table>>;

/// What is in force for each table of a step; of the rules that were changed, held.
pub(super) struct InForce<'a>(Vec<(&'a OfTable<'a>, Option<Reader<'a>>)>);

impl InForce<'_> {
    /// The same answer, in which each limiter tells the figures that decided, and those that are unlimited
    /// by now are in their places.
    pub(super) fn told(&self, done: Done, limiters: usize, step: Step) -> Done {
        if !step.wants_figures() {
            return done;
        }
        let mut decided = done.decisions.into_iter();
        let of_place = |place: usize| {
            let has = |of_table: &&OfTable<'_>| of_table.1.iter().any(|part| part.place == place);
            let (_, current) = self.0.iter().find(|(of_table, _)| has(of_table))?;
            current.as_ref()
        };
        let told = (0..limiters).filter_map(|place| match of_place(place) {
            None => decided.next(),
            Some(current) => {
                let figures = current.rule.clone();
                match current.limiters.is_none() {
                    true => Some(Decided::unlimited(figures)),
                    false => decided.next().map(|one| Decided { figures, ..one }),
                }
            }
        });
        let decisions = told.collect();
        Done { decisions, ..done }
    }
}
