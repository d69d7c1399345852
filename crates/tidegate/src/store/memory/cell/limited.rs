//! The cell of a limited rule, wherever its state is.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Algorithm, Rule, Timestamp};

use super::{Cell, followed_under};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use crate::store::memory::preview::{Preview, preview};

/// A way to keep the state of a cell.
pub(super) trait KeepsState<R: Algorithm>: fmt::Debug + Send + Sync {
    /// True if the early part of a [`Reading`] is used.
    const READS_EARLY: bool;

    /// Decides and takes; `None` if the cell is closed.
    fn admits(&self, algorithm: &R, cost: u64, early: Timestamp, clock: &dyn Clock)
    -> Option<bool>;

    /// Runs a step on the state, and stores the state that `run` leaves if it returns true with its result; `None` if
    /// the cell is closed. It `may_not_fit` then. Where another step came between, `run` runs again.
    fn with<O>(
        &self,
        algorithm: &R,
        reading: Reading<'_>,
        may_not_fit: bool,
        run: impl Fn(&mut Option<R::State>, Timestamp) -> (O, bool),
    ) -> Option<O>;

    /// Closes the cell; returns its state.
    fn close(&self, algorithm: &R) -> Option<R::State>;
}

/// A rule, and the state under it.
#[derive(Debug)]
pub(super) struct Limited<R: Algorithm, P> {
    algorithm: R,
    place: P,
    /// When the rule came in force, if there was no state then: a state remembers that itself.
    ruled_since: Timestamp,
}

impl<R: Algorithm, P: KeepsState<R>> Limited<R, P> {
    /// Creates the cell of a rule that no limiter had before.
    pub(super) const fn new(algorithm: R, place: P) -> Self {
        Self { algorithm, place, ruled_since: Timestamp::EPOCH }
    }
}

impl<R: Algorithm> Limited<R, Unpacked<R::State>> {
    /// Creates the cell of a rule that comes in force at `now`, with the state of the cell before.
    pub(super) fn following(algorithm: R, state: Option<R::State>, now: Timestamp) -> Self {
        let ruled_since = if state.is_some() { Timestamp::EPOCH } else { now };
        Self { algorithm, place: Unpacked::of(state), ruled_since }
    }
}

impl<R: Algorithm, P: KeepsState<R>> Cell for Limited<R, P> {
    fn reads_early(&self) -> bool {
        P::READS_EARLY
    }

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> Option<bool> {
        self.place.admits(&self.algorithm, cost, early, clock)
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> Option<One> {
        let dated = step.on_limiter_since(self.ruled_since);
        let run = |slot: &mut Option<R::State>, now| {
            // A bucket that begins with fewer tokens exists after a reset, and is full.
            let begins = step.begins(cost) || matches!(step, Step::Reset { .. });
            let stays_unborn = slot.is_none() && !begins;
            let one = dated.run(&self.algorithm, slot, cost, now);
            if stays_unborn {
                *slot = None;
            }
            let changes = step.changes(one.verdict, cost);
            (one, changes)
        };
        self.place.with(&self.algorithm, reading, step.may_not_fit(cost), run)
    }

    fn preview(&self, reading: Reading<'_>) -> Option<Box<dyn Preview>> {
        let run =
            |slot: &mut Option<R::State>, now| (preview(&self.algorithm, slot.clone(), now), false);
        self.place.with(&self.algorithm, reading, false, run)
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Box<dyn Cell> {
        let state = self.place.close(&self.algorithm);
        followed_under(rule, &self.algorithm, state, reading.anew())
    }
}

/// An unpacked state behind a lock; the outer option is `None` if the cell is closed.
#[derive(Debug)]
pub(super) struct Unpacked<S>(Mutex<Option<Option<S>>>);

impl<S> Unpacked<S> {
    pub(super) const fn of(state: Option<S>) -> Self {
        Self(Mutex::new(Some(state)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Option<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Algorithm> KeepsState<R> for Unpacked<R::State> {
    const READS_EARLY: bool = false;

    fn admits(
        &self,
        algorithm: &R,
        cost: u64,
        _early: Timestamp,
        clock: &dyn Clock,
    ) -> Option<bool> {
        let mut slot = self.lock();
        let slot = slot.as_mut()?;
        let now = clock.now();
        let state = slot.get_or_insert_with(|| algorithm.fresh(now));
        Some(algorithm.ask(state, now, cost).is_allowed())
    }

    fn with<O>(
        &self,
        _algorithm: &R,
        reading: Reading<'_>,
        _may_not_fit: bool,
        run: impl Fn(&mut Option<R::State>, Timestamp) -> (O, bool),
    ) -> Option<O> {
        let mut slot = self.lock();
        let (out, _) = run(slot.as_mut()?, reading.anew());
        Some(out)
    }

    fn close(&self, _algorithm: &R) -> Option<R::State> {
        self.lock().take().flatten()
    }
}
