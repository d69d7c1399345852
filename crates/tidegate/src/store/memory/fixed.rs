//! An entry under the one rule of its table: only a state. The table has the algorithm and its values, once for
//! all.

use std::any::Any;

use tidegate_core::{Algorithm, Decision, Rule, Timestamp};

use super::budget::Need;
use super::entry::{Entry, TableRules};
use super::leaving::{Left, bytes_under};
use super::parameters::{Parameters, heap_bytes};
use super::preview::{Preview, preview};
use super::table::{Part, refusal};
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};

/// A state; `None` until it is created.
#[derive(Clone, Debug)]
pub(super) struct FixedEntry<R: Algorithm>(pub(super) Option<R::State>);

impl<R: Algorithm> Entry for FixedEntry<R> {
    type Rules = Parameters<R>;
    type Recent = ();

    fn new(_part: &Part<'_>, (): &mut (), _now: Timestamp) -> Option<Self> {
        Some(Self(None))
    }

    #[inline]
    fn need(&self, rules: &Parameters<R>) -> Need {
        match &self.0 {
            Some(state) if rules.algorithm.has_place(state) => Need { next: 0, ..rules.heap },
            _ => rules.heap,
        }
    }

    fn bytes(&self, rules: &Parameters<R>) -> usize {
        self.0.as_ref().map_or(0, |state| heap_bytes(&rules.algorithm, state))
    }

    fn is_idle(&self, rules: &Parameters<R>, now: Timestamp) -> bool {
        self.0.as_ref().is_none_or(|state| rules.algorithm.is_idle(state, now))
    }

    #[inline]
    fn run(
        &mut self,
        rules: &Parameters<R>,
        step: Step,
        cost: u64,
        now: Timestamp,
        in_place: bool,
    ) -> One {
        if in_place {
            step.run_in_place(&rules.algorithm, &mut self.0, cost, now)
        } else {
            step.run(&rules.algorithm, &mut self.0, cost, now)
        }
    }

    #[inline]
    fn ask(&mut self, rules: &Parameters<R>, cost: u64, clock: &dyn Clock) -> Option<bool> {
        // A state without a place for one more unit has to claim bytes first.
        let state = self.0.as_mut().filter(|state| rules.algorithm.has_place(state))?;
        Some(rules.algorithm.ask(state, clock.now(), cost).is_allowed())
    }

    fn preview(
        entry: Option<Self>,
        rules: &Parameters<R>,
        _part: &Part<'_>,
        now: Timestamp,
    ) -> Box<dyn Preview> {
        preview(&rules.algorithm, entry.and_then(|entry| entry.0), now)
    }

    fn into_state(self) -> Option<Box<dyn Any>> {
        Some(Box::new(self.0?))
    }

    fn bytes_under(&self, rules: &Parameters<R>, rule: &Rule, at: Timestamp) -> usize {
        self.0.as_ref().map_or(0, |state| bytes_under(&rules.algorithm, state, rule, at))
    }

    fn save(
        &self,
        rules: &Parameters<R>,
        fingerprint: Option<Fingerprint>,
        now: Timestamp,
        records: &mut Records<'_, '_>,
    ) {
        if let Some(state) = &self.0 {
            // The last unit of a packed state was not after this.
            let last = if rules.are_packed { now } else { rules.algorithm.last(state) };
            records.add(fingerprint, &rules.algorithm, state, last);
        }
    }
}

impl<R: Algorithm> TableRules<FixedEntry<R>> for Parameters<R> {
    fn share(&self, entry: &mut Option<FixedEntry<R>>, _now: Timestamp) -> bool {
        entry.get_or_insert(FixedEntry(None));
        true
    }

    fn refusal(&self, part: &Part<'_>, _alone: bool) -> Decision {
        refusal(&self.algorithm, part)
    }

    fn adopt(&self, left: Left, at: Timestamp) -> Option<FixedEntry<R>> {
        left.under(&self.algorithm, at).map(|state| FixedEntry(Some(state)))
    }
}
