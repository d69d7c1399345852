//! Rules whose limits come with each request: a plan that is looked up, or what the request supplies.

use std::sync::Arc;

use tidegate_core::Rule;

use super::ruled::RuledTable;
use super::table::{Part, Table};
use super::{MemoryStore, budget_of};
use crate::rules::Policy;
use crate::step::{Met, Step};

impl MemoryStore {
    /// Keeps the limiters of a rule from now on each under a rule of its own; they start fresh.
    pub(crate) fn keep_figures(&mut self, policy: &Policy, number: usize) {
        let Some(rule) = policy.rules().get(number).filter(|_| !self.is_figured(number)) else {
            return;
        };
        let own: Vec<_> = (0..rule.variants()).map(|number| rule.variant(number).clone()).collect();
        self.own.resize_with(policy.rules().len(), Vec::new);
        let places = (self.tables.get_mut(number), self.changes.get_mut(number));
        if let ((Some(tables), Some(changes)), Some(usual)) = (places, own.first()) {
            let budget = budget_of(rule.spec(), self.shared.clone());
            changes.start_fresh(self.shared.as_deref(), Arc::clone(&budget));
            let table = RuledTable::under(rule.spec(), usual.clone(), budget);
            *tables = vec![Some(Box::new(table) as Box<dyn Table>)];
        }
        if let Some(place) = self.own.get_mut(number) {
            *place = own;
        }
    }

    /// The part of a limiter in a step.
    #[inline]
    pub(super) fn part<'a>(&'a self, place: usize, met: &'a Met, step: Step) -> Part<'a> {
        let (cost, step) = met.part(step);
        let Met { fingerprint, enforced, brought, .. } = *met;
        let rule = met.figures.as_deref().or_else(|| self.own(met.rule)?.get(met.variant));
        Part { place, fingerprint, cost, step, enforced, rule, brought }
    }

    /// The limits of a rule for keys that have none of their own, by variant; `None` where all have those.
    #[inline]
    fn own(&self, rule: usize) -> Option<&[Rule]> {
        self.own.get(rule).map(Vec::as_slice).filter(|own| !own.is_empty())
    }

    /// Whether the limits of a rule come with each request.
    #[inline]
    pub(crate) fn is_figured(&self, rule: usize) -> bool {
        self.own(rule).is_some()
    }

    /// Whether there is any such rule.
    pub(crate) const fn any_figured(&self) -> bool {
        !self.own.is_empty()
    }

    /// Orders tables: one for each variant, or for all where limits come with each request.
    #[inline]
    pub(super) fn table_number(&self, met: &Met) -> (usize, usize) {
        (met.rule, if self.is_figured(met.rule) { 0 } else { met.variant })
    }
}
