//! The cell of an unlimited rule: it admits everything and counts nothing.

use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use super::{Cell, cell_of};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use crate::store::memory::preview::{Preview, UnlimitedPreview};
use crate::store::memory::replacement::Replacement;

/// The cell.
#[derive(Debug)]
pub(super) struct UnlimitedCell {
    /// The cell that replaces and so closes it; `None` for a cell that is itself in force in place of another.
    replacement: Option<Arc<Replacement<dyn Cell>>>,
    /// The state under the last limit, if there was one.
    kept: Option<Box<dyn Cell>>,
}

impl UnlimitedCell {
    /// A cell that nothing replaces.
    pub(super) const ALONE: Self = Self { replacement: None, kept: None };

    pub(super) const fn replaced_by(replacement: Arc<Replacement<dyn Cell>>) -> Self {
        Self { replacement: Some(replacement), kept: None }
    }

    pub(super) const fn keeping(kept: Box<dyn Cell>) -> Self {
        Self { replacement: None, kept: Some(kept) }
    }

    fn replacement(&self) -> Option<&Replacement<dyn Cell>> {
        self.replacement.as_deref().filter(|replacement| replacement.is_in_force())
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
        if let Some(other) = self.replacement() {
            return other.step(cost, step, reading);
        }
        if let (Some(kept), Some(step)) = (&self.kept, step.without_limit(cost)) {
            kept.step(cost, step, reading);
        }
        One::unlimited(reading.early())
    }

    fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        self.replacement()
            .map_or_else(|| Box::new(UnlimitedPreview) as _, |other| other.preview(reading))
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Box<dyn Cell> {
        match &self.kept {
            Some(kept) => kept.close(rule, reading),
            None => cell_of(rule, None, &Replacement::none_yet()),
        }
    }
}
