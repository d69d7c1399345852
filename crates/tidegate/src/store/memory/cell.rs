//! A limiter without a key.
//!
//! Its state is one word that is replaced by compare-and-swap, if it can be packed into one. A state that cannot, such as
//! a log, a debt or a state with an open reservation, lies next to the word under a lock until it fits. Both run the
//! same verbs.
//!
//! A cell is read without a lock, so it cannot be replaced while threads may read it. The first change of the rule *closes*
//! it for good, and from then on another cell decides, under a reader's lock. That cell packs no state, because a packed
//! state could be cut off; later changes replace it under the writer's lock.

mod limited;

use std::fmt;
use std::sync::PoisonError;

use tidegate_core::{Algorithm, Rule, Timestamp, Visitor};

use super::leaving::carried;
use super::preview::{Preview, UnlimitedPreview};
use super::sync::RwLock;
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use limited::Limited;

/// A limiter without a key. If its rule never changes, only the first cell is read.
#[derive(Debug)]
pub(crate) struct Unkeyed {
    first: Box<dyn Cell>,
    replacement: RwLock<Replacement>,
}

/// The cell that decides once the first cell is closed.
#[derive(Debug)]
struct Replacement {
    /// `None` until the rule changes.
    cell: Option<Box<dyn Cell>>,
    /// True if everything is admitted and nothing counted; the cell then keeps the state under the last limit.
    is_unlimited: bool,
}

impl Unkeyed {
    /// Creates the limiter of a rule. Without `base`, the base of packed times, no state is packed.
    pub(crate) fn new(rule: &Rule, base: Option<Timestamp>) -> Self {
        let is_unlimited = rule.is_unlimited();
        let replacement = RwLock::new(Replacement { cell: None, is_unlimited });
        Self { first: cell_of(rule, base), replacement }
    }

    /// Returns whether the early part of a [`Reading`] is used; a state that is not packed does not use it.
    pub(crate) fn reads_early(&self) -> bool {
        self.first.reads_early()
    }

    /// Decides and takes; returns only whether the cost was admitted. `early` and `clock` are the parts of a
    /// [`Reading`].
    #[inline]
    pub(crate) fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        match self.first.admits(cost, early, clock) {
            Some(admitted) => admitted,
            None => self.admits_replaced(cost, early, clock),
        }
    }

    #[cold]
    #[inline(never)]
    fn admits_replaced(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        self.replaced(|cell| cell.admits(cost, early, clock), || true)
    }

    /// Runs one step.
    #[inline]
    pub(crate) fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        match self.first.step(cost, step, reading) {
            Some(one) => one,
            None => self.step_replaced(cost, step, reading),
        }
    }

    #[cold]
    fn step_replaced(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let replacement = self.replacement.read().unwrap_or_else(PoisonError::into_inner);
        let step = if replacement.is_unlimited { step.without_limit(cost) } else { Some(step) };
        // Under an unlimited rule such a step only gives back, and its reply is not the reply to the caller.
        let one = step.zip(replacement.cell.as_ref());
        let one = one.and_then(|(step, cell)| cell.step(cost, step, reading));
        one.filter(|_| !replacement.is_unlimited).unwrap_or_else(|| One::unlimited(reading.early()))
    }

    /// Creates a preview from the current state.
    pub(crate) fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        let preview = self.first.preview(reading);
        preview.unwrap_or_else(|| {
            self.replaced(|cell| cell.preview(reading), || Box::new(UnlimitedPreview))
        })
    }

    /// Puts another rule in force; what was used stays used.
    pub(crate) fn amend(&self, rule: &Rule, reading: Reading<'_>) {
        let mut replacement = self.replacement.write().unwrap_or_else(PoisonError::into_inner);
        // A step that finds the cell closed asks for the next cell, and waits for this lock.
        let next = replacement.cell.as_ref().unwrap_or(&self.first).close(rule, reading);
        *replacement = Replacement { cell: Some(next), is_unlimited: rule.is_unlimited() };
    }

    /// Asks the cell that decides once the first is closed, and waits for a running change of the rule. The result is
    /// `unlimited` if no cell decides.
    fn replaced<O>(
        &self,
        ask: impl FnOnce(&dyn Cell) -> Option<O>,
        unlimited: impl FnOnce() -> O,
    ) -> O {
        let replacement = self.replacement.read().unwrap_or_else(PoisonError::into_inner);
        let cell = replacement.cell.as_deref().filter(|_| !replacement.is_unlimited);
        cell.and_then(ask).unwrap_or_else(unlimited)
    }
}

/// The state of a limiter without a key, with any algorithm. The methods are those of [`Unkeyed`], and return `None` if
/// the cell is closed.
trait Cell: fmt::Debug + Send + Sync {
    fn reads_early(&self) -> bool {
        false
    }

    fn admits(&self, _cost: u64, _early: Timestamp, _clock: &dyn Clock) -> Option<bool> {
        None
    }

    fn step(&self, _cost: u64, _step: Step, _reading: Reading<'_>) -> Option<One> {
        None
    }

    fn preview(&self, _reading: Reading<'_>) -> Option<Box<dyn Preview>> {
        None
    }

    /// Closes the cell for good. Returns the next cell with the same usage, under `rule` if that is limited.
    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Box<dyn Cell>;
}

/// Creates the cell of a rule.
fn cell_of(rule: &Rule, base: Option<Timestamp>) -> Box<dyn Cell> {
    rule.visit(Build { base }).unwrap_or_else(|| Box::new(NoCell))
}

struct Build {
    base: Option<Timestamp>,
}

impl Visitor for Build {
    type Out = Box<dyn Cell>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Box<dyn Cell> {
        Box::new(Limited::new(algorithm.clone(), self.base))
    }
}

/// The cell of a limiter that never had a limit: closed from the beginning.
#[derive(Debug)]
struct NoCell;

impl Cell for NoCell {
    fn close(&self, rule: &Rule, _reading: Reading<'_>) -> Box<dyn Cell> {
        cell_of(rule, None)
    }
}

/// Carries the state of a closed cell over to the rule that is visited.
struct CarryOver<'a, Old: Algorithm> {
    old: &'a Old,
    state: Option<Old::State>,
    now: Timestamp,
}

impl<Old: Algorithm> Visitor for CarryOver<'_, Old> {
    type Out = Box<dyn Cell>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Box<dyn Cell> {
        let state = self.state.and_then(|state| carried(self.old, state, algorithm, self.now));
        Box::new(Limited::following(algorithm.clone(), state, self.now))
    }
}
