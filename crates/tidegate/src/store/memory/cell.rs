//! One limiter by itself, without a key.
//!
//! How its state is kept is chosen once: a word that is replaced by compare-and-swap, two words under
//! a lock bit in the first, or the whole state under a lock. All run the same verbs on a copy. When
//! its rule is changed it is closed, and what follows it is kept whole: no change may cut off what a
//! packed state has no room for. So it is when a debt is settled that the words have no room for; the
//! rule then stays, and the debt is taken by what follows.

mod locked;
mod pair;
mod word;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Algorithm, Packing, Rule, Timestamp, Visitor};

use super::leaving::carried;
use super::preview::{Preview, preview_of_none};
use super::replacement::Replacement;
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use locked::Locked;
use pair::Pair;
use word::Word;

/// The bit that packed states leave free.
const LOCKED: u64 = 1 << 63;

/// One limiter, whatever its algorithm and however it keeps its state.
pub(crate) trait Cell: fmt::Debug + Send + Sync {
    /// Whether the early part of a [`Reading`] is of use to it: not to states that are kept whole.
    fn reads_early(&self) -> bool;

    /// Decides and takes, working out no figures: whether the cost was admitted.
    /// The clock comes as the parts of a [`Reading`].
    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool;

    /// One step.
    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One;

    /// Makes it as good as new.
    fn forget(&self);

    /// A preview from its state as it is now.
    fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview>;

    /// Closes it for good; answers the cell of `rule` that follows, in which what was used stays used,
    /// or `None` where that is unlimited.
    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Option<Box<dyn Cell>>;
}

impl Replacement<dyn Cell> {
    /// [`Cell::admits`] of the cell in force.
    pub(crate) fn admits(&self, cost: u64, reading: Reading<'_>) -> bool {
        self.with(|cell| {
            cell.is_none_or(|cell| cell.admits(cost, reading.early(), reading.clock()))
        })
    }

    /// [`Cell::step`] of the cell in force.
    pub(crate) fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        self.with(|cell| match cell {
            Some(cell) => cell.step(cost, step, reading),
            None => One::unlimited(reading.early()),
        })
    }

    /// [`Cell::forget`] of the cell in force.
    pub(crate) fn forget(&self) {
        self.with(|cell| cell.iter().for_each(|cell| cell.forget()));
    }

    /// [`Cell::ahead`] of the cell in force.
    pub(crate) fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        self.with(|cell| cell.map_or_else(preview_of_none, |cell| cell.preview(reading)))
    }

    /// Puts `rule` in force in place of that of `first`, or of what followed it.
    pub(crate) fn amend(
        &self,
        first: Option<&(dyn Cell + 'static)>,
        rule: &Rule,
        reading: Reading<'_>,
    ) {
        self.change(first, |last| match last {
            Some(cell) => cell.close(rule, reading),
            None => rule.visit(cell_of(None, Self::none_yet())),
        });
    }
}

/// The cell of a rule that is visited; `later` decides once it is closed. Without `base`, what packed
/// times count from, the state is kept whole.
pub(crate) fn cell_of(
    base: Option<Timestamp>,
    replacement: Arc<Replacement<dyn Cell>>,
) -> impl Visitor<Out = Box<dyn Cell>> {
    Build { base, replacement }
}

struct Build {
    base: Option<Timestamp>,
    replacement: Arc<Replacement<dyn Cell>>,
}

impl Visitor for Build {
    type Out = Box<dyn Cell>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Box<dyn Cell> {
        let (algorithm, replacement) = (algorithm.clone(), self.replacement);
        match (algorithm.packing(), self.base) {
            (Packing::One, Some(base)) => Box::new(Word::new(algorithm, base, replacement)),
            (Packing::Two, Some(base)) => Box::new(Pair::new(algorithm, base, replacement)),
            _ => Box::new(Locked::new(algorithm, None, replacement)),
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
        Box::new(Locked::new(algorithm.clone(), state, Replacement::none_yet()))
    }
}

/// What follows a cell that ended under the same rule.
fn followed_whole<R: Algorithm>(algorithm: &R, state: Option<R::State>) -> Box<dyn Cell> {
    Box::new(Locked::new(algorithm.clone(), state, Replacement::none_yet()))
}
