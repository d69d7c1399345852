//! The limiters of a rule whose figures come with each request: looked up, or brought along.

use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use super::MemoryStore;
use super::ahead::{Ahead, ahead_of_none};
use super::budget::Budget;
use super::planned::{Asked, PlannedPart, PlannedTable};
use super::table::{Hold, Part};
use crate::clock::Clock;
use crate::rules::{Policy, PolicyRule};
use crate::step::{Met, One, Step, UNLIMITED};

/// The limiters of one rule, whatever their figures.
#[derive(Debug)]
pub(super) struct Figured {
    table: PlannedTable,
    /// The rule's own, by variant, for keys that have no others.
    own: Vec<Rule>,
}

impl Figured {
    /// As new; the rule's own figures are those of the limiter that keys without room share.
    pub(super) fn new(rule: &PolicyRule, shared: Option<Arc<Budget>>) -> Self {
        let own: Vec<_> = (0..rule.variants()).map(|number| rule.variant(number).clone()).collect();
        let table = PlannedTable::part_of(shared, rule.spec(), rule.variant(0).clone());
        Self { table, own }
    }

    /// What is asked of a limiter; `None` for a variant that there is not.
    fn asked<'a>(&'a self, met: &'a Met, step: Step) -> Option<Asked<'a>> {
        let rule = met.figures.as_deref().or_else(|| self.own.get(met.variant))?;
        let (Met { print, brought, .. }, (cost, step)) = (met, met.part(step));
        let (print, brought) = (*print, *brought);
        Some(Asked { print, rule, cost, step, brought })
    }

    pub(super) fn one(&self, met: &Met, step: Step, clock: &dyn Clock) -> One {
        let one = self.asked(met, step).and_then(|asked| self.table.one(asked, clock));
        one.unwrap_or_else(|| {
            let decision = step.wants_figures().then_some(UNLIMITED);
            One { decision, ..One::unlimited(clock.now()) }
        })
    }

    /// Holds limiters by their places in `all`.
    pub(super) fn hold<'a>(
        &'a self,
        parts: &[Part],
        all: &'a [Met],
        now: Timestamp,
    ) -> Box<dyn Hold + 'a> {
        let planned = |part: &Part| {
            let Asked { rule, brought, .. } = self.asked(all.get(part.place)?, part.step)?;
            Some(PlannedPart { part: *part, rule, brought })
        };
        let parts: Vec<_> = parts.iter().filter_map(planned).collect();
        self.table.hold(&parts, now)
    }

    /// A look ahead on a limiter; `None` for a variant that there is not.
    pub(super) fn ahead(&self, met: &Met, now: Timestamp) -> Option<Box<dyn Ahead>> {
        let Asked { print, rule, brought, .. } = self.asked(met, Step::Peek)?;
        Some(self.table.ahead(print, rule, brought, now).unwrap_or_else(ahead_of_none))
    }

    /// Puts the rule's own figures in force for the limiter that keys without room share; each other
    /// limiter follows when it is next asked.
    pub(super) fn amend(&self, rule: &PolicyRule) {
        self.table.amend(rule.variant(0).clone());
    }

    pub(super) fn tidy(&self, now: Timestamp) {
        self.table.tidy(now);
    }

    pub(super) fn keys(&self) -> usize {
        self.table.keys()
    }
}

impl MemoryStore {
    /// Keeps the limiters of a rule from now on each under figures of its own; they begin anew.
    pub(crate) fn keep_figures(&mut self, policy: &Policy, number: usize) {
        let Some(rule) = policy.rules().get(number) else { return };
        if self.figured(number).is_some() {
            return;
        }
        if let Some(tables) = self.tables.get_mut(number) {
            tables.clear();
        }
        if let Some(changes) = self.changes.get_mut(number) {
            changes.begin_anew(self.shared.as_deref());
        }
        self.figured.resize_with(policy.rules().len(), || None);
        let shared = self.shared.clone();
        if let Some(place) = self.figured.get_mut(number) {
            *place = Some(Box::new(Figured::new(rule, shared)));
        }
    }

    pub(super) fn figured(&self, rule: usize) -> Option<&Figured> {
        self.figured.get(rule)?.as_deref()
    }

    /// Whether the figures of a rule come with each request.
    #[inline]
    pub(crate) fn is_figured(&self, rule: usize) -> bool {
        self.figured(rule).is_some()
    }

    /// Whether there is any such rule.
    pub(crate) const fn any_figured(&self) -> bool {
        !self.figured.is_empty()
    }

    /// Orders tables: one for each variant, or for all where figures come with each request.
    pub(super) fn table_number(&self, met: &Met) -> (usize, usize) {
        (met.rule, if self.is_figured(met.rule) { 0 } else { met.variant })
    }
}
