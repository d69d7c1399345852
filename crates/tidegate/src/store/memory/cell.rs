//! A limiter without a key.
//!
//! When it is built, it chooses how to keep its state: one word that is replaced by compare-and-swap, two words with
//! a lock bit in the first, or an unpacked state under a lock. All run the same verbs. A state that is too large for the
//! words, such as a debt or a state with an open reservation, is spilled: it lies next to them until it fits.
//!
//! A cell is read without a lock, so it cannot be replaced while threads may read it. The first change of the rule *closes*
//! it for good, and from then on another cell decides, under a reader's lock. That cell keeps its state unpacked, because
//! a packed state could cut it off; later changes replace it under the writer's lock.

mod limited;
mod words;

use std::fmt;
use std::sync::PoisonError;

use tidegate_core::{Algorithm, Packing, Rule, Timestamp, Visitor};

use super::leaving::carried;
use super::preview::{Preview, UnlimitedPreview};
use super::sync::{
    AtomicU32,
    Ordering::{Acquire, Release},
    RwLock,
};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use limited::{Limited, Unpacked};
use words::{InWords, OneWord, TwoWords};

/// The largest state that is packed, in bytes. To pack and unpack a larger one, such as the counters of a sliding window,
/// takes longer than to lock it.
const MOST_PACKED_BYTES: usize = 40;

/// A limiter without a key. If its rule never changes, only the first cell is read.
#[derive(Debug)]
pub(crate) struct Unkeyed {
    first: Box<dyn Cell>,
    /// The cell that decides once the first is closed.
    replacement: RwLock<Option<Box<dyn Cell>>>,
}

impl Unkeyed {
    /// Creates the limiter of a rule. Without `base`, the base of packed times, the state is kept unpacked.
    pub(crate) fn new(rule: &Rule, base: Option<Timestamp>) -> Self {
        Self { first: cell_of(rule, base), replacement: RwLock::new(None) }
    }

    /// Returns whether the early part of a [`Reading`] is used; an unpacked state does not use it.
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
        self.replaced(|cell| cell.admits(cost, early, clock)).unwrap_or(true)
    }

    /// Runs one step.
    #[inline]
    pub(crate) fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        match self.first.step(cost, step, reading) {
            Some(one) => one,
            None => {
                let one = self.replaced(|cell| cell.step(cost, step, reading));
                one.unwrap_or_else(|| One::unlimited(reading.early()))
            }
        }
    }

    /// Creates a preview from the current state.
    pub(crate) fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        let preview = self.first.preview(reading);
        let preview = preview.or_else(|| self.replaced(|cell| cell.preview(reading)));
        preview.unwrap_or_else(|| Box::new(UnlimitedPreview))
    }

    /// Puts another rule in force; what was used stays used.
    pub(crate) fn amend(&self, rule: &Rule, reading: Reading<'_>) {
        let mut replacement = self.replacement.write().unwrap_or_else(PoisonError::into_inner);
        let next = replacement.as_ref().unwrap_or(&self.first).close(rule, reading);
        *replacement = Some(next);
    }

    /// Asks the cell that decides once the first is closed; waits for a running change.
    #[cold]
    fn replaced<O>(&self, ask: impl FnOnce(&dyn Cell) -> Option<O>) -> Option<O> {
        let replacement = self.replacement.read().unwrap_or_else(PoisonError::into_inner);
        replacement.as_deref().and_then(ask)
    }
}

/// The state of a limiter without a key, with any algorithm and any way to keep it. The methods are those of [`Unkeyed`],
/// and return `None` if the cell is closed.
trait Cell: fmt::Debug + Send + Sync {
    fn reads_early(&self) -> bool;

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> Option<bool>;

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> Option<One>;

    fn preview(&self, reading: Reading<'_>) -> Option<Box<dyn Preview>>;

    /// Closes the cell for good. Returns the next cell, under `rule`, with the same usage.
    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Box<dyn Cell>;
}

/// Creates the cell of a rule.
fn cell_of(rule: &Rule, base: Option<Timestamp>) -> Box<dyn Cell> {
    rule.visit(Build { base }).unwrap_or_else(|| Box::new(Unlimited::default()))
}

struct Build {
    base: Option<Timestamp>,
}

impl Visitor for Build {
    type Out = Box<dyn Cell>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Box<dyn Cell> {
        let algorithm = algorithm.clone();
        let base = self.base.filter(|_| size_of::<R::State>() <= MOST_PACKED_BYTES);
        match (algorithm.packing(), base) {
            (Packing::One, Some(base)) => {
                Box::new(Limited::new(algorithm, InWords::<R, OneWord, 1>::new(base)))
            }
            (Packing::Two, Some(base)) => {
                Box::new(Limited::new(algorithm, InWords::<R, TwoWords, 2>::new(base)))
            }
            _ => Box::new(Limited::new(algorithm, Unpacked::<R::State>::of(None))),
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
        Box::new(Limited::following(algorithm.clone(), state, self.now))
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
        let kept: Box<dyn Cell> = Box::new(Limited::following(old.clone(), state, now));
        Box::new(Unlimited { kept: Some(kept), ..Unlimited::default() })
    })
}

/// The cell of an unlimited rule: it admits everything and counts nothing.
#[derive(Debug, Default)]
struct Unlimited {
    /// The state under the last limit, if there was one.
    kept: Option<Box<dyn Cell>>,
    /// 1 if closed.
    closed: AtomicU32,
}

impl Unlimited {
    fn while_open<O>(&self, value: O) -> Option<O> {
        (self.closed.load(Acquire) == 0).then_some(value)
    }
}

impl Cell for Unlimited {
    fn reads_early(&self) -> bool {
        false
    }

    fn admits(&self, _cost: u64, _early: Timestamp, _clock: &dyn Clock) -> Option<bool> {
        self.while_open(true)
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> Option<One> {
        if let (Some(kept), Some(step)) = (&self.kept, step.without_limit(cost)) {
            kept.step(cost, step, reading);
        }
        self.while_open(One::unlimited(reading.early()))
    }

    fn preview(&self, _reading: Reading<'_>) -> Option<Box<dyn Preview>> {
        self.while_open(Box::new(UnlimitedPreview))
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Box<dyn Cell> {
        self.closed.store(1, Release);
        match &self.kept {
            Some(kept) => kept.close(rule, reading),
            None => cell_of(rule, None),
        }
    }
}
