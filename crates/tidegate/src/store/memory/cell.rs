//! A limiter without a key.
//!
//! When it is built, it chooses how to keep its state: one word that is replaced by compare-and-swap, two words with
//! a lock bit in the first, or an unpacked state under a lock. All run the same verbs on a copy. A change of the rule
//! closes the cell, and the next cell keeps its state unpacked, because a packed one could cut it off. A state that is
//! too large for the words, such as a debt or a state with an open reservation, is spilled: it lies next to them until
//! it fits.

mod locked;
mod pair;
mod spilled;
mod unlimited;
mod word;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Algorithm, Packing, Rule, Timestamp, Visitor};

use super::leaving::carried;
use super::preview::Preview;
use super::replacement::Replacement;
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use locked::Locked;
use pair::Pair;
use unlimited::UnlimitedCell;
use word::Word;

/// The bit that packed states leave free.
const LOCKED: u64 = 1 << 63;

/// The largest state that is packed, in bytes. To pack and unpack a larger one, such as the counters of a sliding window,
/// takes longer than to lock it.
const MOST_PACKED_BYTES: usize = 40;

/// A limiter without a key, with any algorithm and any way to keep its state.
pub(crate) trait Cell: fmt::Debug + Send + Sync {
    /// Returns whether the early part of a [`Reading`] is used; an unpacked state does not use it.
    fn reads_early(&self) -> bool;

    /// Decides and takes; returns only whether the cost was admitted. `early` and `clock` are the parts of a
    /// [`Reading`].
    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool;

    /// Runs one step.
    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One;

    /// Creates a preview from the current state.
    fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview>;

    /// Closes the cell for good. Returns the next cell, under `rule`, with the same usage.
    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Box<dyn Cell>;
}

impl Replacement<dyn Cell> {
    /// [`Cell::admits`] of the cell in force.
    pub(crate) fn admits(&self, cost: u64, reading: Reading<'_>) -> bool {
        self.ask(|cell| cell.admits(cost, reading.early(), reading.clock()))
    }

    /// [`Cell::step`] of the cell in force.
    pub(crate) fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        self.ask(|cell| cell.step(cost, step, reading))
    }

    /// [`Cell::preview`] of the cell in force.
    pub(crate) fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        self.ask(|cell| cell.preview(reading))
    }

    /// Puts `rule` in force in place of the rule of `first`, or of the cell that replaced it.
    pub(crate) fn amend(&self, first: &(dyn Cell + 'static), rule: &Rule, reading: Reading<'_>) {
        self.change(first, |last| last.close(rule, reading));
    }

    fn ask<O>(&self, ask: impl FnOnce(&dyn Cell) -> O) -> O {
        self.with(|cell| ask(cell.unwrap_or(&UnlimitedCell::ALONE)))
    }
}

/// Creates the cell of a rule; `replacement` decides once the cell is closed. Without `base`, the base of packed
/// times, the state is kept unpacked.
pub(crate) fn cell_of(
    rule: &Rule,
    base: Option<Timestamp>,
    replacement: &Arc<Replacement<dyn Cell>>,
) -> Box<dyn Cell> {
    let cell = rule.visit(Build { base, replacement: Arc::clone(replacement) });
    cell.unwrap_or_else(|| Box::new(UnlimitedCell::replaced_by(Arc::clone(replacement))))
}

struct Build {
    base: Option<Timestamp>,
    replacement: Arc<Replacement<dyn Cell>>,
}

impl Visitor for Build {
    type Out = Box<dyn Cell>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Box<dyn Cell> {
        let (algorithm, replacement) = (algorithm.clone(), self.replacement);
        let base = self.base.filter(|_| size_of::<R::State>() <= MOST_PACKED_BYTES);
        match (algorithm.packing(), base) {
            (Packing::One, Some(base)) => Box::new(Word::new(algorithm, base, replacement)),
            (Packing::Two, Some(base)) => Box::new(Pair::new(algorithm, base, replacement)),
            _ => Box::new(Locked::new(algorithm, None, Timestamp::EPOCH, replacement)),
        }
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
        Box::new(Locked::new(algorithm.clone(), state, self.now, Replacement::none_yet()))
    }
}

/// Creates the cell under `rule` that follows a closed cell with this state.
fn followed_under<R: Algorithm>(
    rule: &Rule,
    old: &R,
    state: Option<R::State>,
    now: Timestamp,
) -> Box<dyn Cell> {
    let carried = rule.visit(CarryOver { old, state: state.clone(), now });
    carried.unwrap_or_else(|| {
        // Without a limit the state stays under the rule that it has.
        let kept = Locked::new(old.clone(), state, now, Replacement::none_yet());
        Box::new(UnlimitedCell::keeping(Box::new(kept)))
    })
}
