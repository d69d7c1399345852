//! The cell of an unlimited rule: it admits everything and keeps nothing.

use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use super::{Cell, cell_of};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use crate::store::memory::preview::{Preview, UnlimitedPreview};
use crate::store::memory::replacement::Replacement;

/// The cell, closed by what replaces it: `None` for a cell that is itself in force in place of another.
#[derive(Debug)]
pub(super) struct UnlimitedCell(pub(super) Option<Arc<Replacement<dyn Cell>>>);

impl UnlimitedCell {
    fn replacement(&self) -> Option<&Replacement<dyn Cell>> {
        self.0.as_deref().filter(|replacement| replacement.is_in_force())
    }
}

impl Cell for UnlimitedCell {
    fn reads_early(&self) -> bool {
        false
    }

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        self.replacement().is_none_or(|other| other.admits(cost, Reading::joined(early, clock)))
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        match self.replacement() {
            Some(other) => other.step(cost, step, reading),
            None => One::unlimited(reading.early()),
        }
    }

    fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        self.replacement()
            .map_or_else(|| Box::new(UnlimitedPreview) as _, |other| other.preview(reading))
    }

    fn close(&self, rule: &Rule, _reading: Reading<'_>) -> Box<dyn Cell> {
        cell_of(rule, None, &Replacement::none_yet())
    }
}
