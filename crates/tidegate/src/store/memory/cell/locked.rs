//! A limiter with an unpacked state, under a lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Algorithm, Rates, Rule, Timestamp};

use super::{Cell, followed_under};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use crate::store::memory::preview::{Preview, preview};
use crate::store::memory::replacement::Replacement;

/// An unpacked state under a lock.
#[derive(Debug)]
pub(super) struct Locked<R: Algorithm> {
    algorithm: R,
    slot: Mutex<Slot<R>>,
    /// Since when the rule is in force.
    ruled_since: Timestamp,
    replacement: Arc<Replacement<dyn Cell>>,
}

#[derive(Debug)]
struct Slot<R: Algorithm> {
    state: Option<R::State>,
    /// True if there was no state when the rule came in force.
    began_later: bool,
    closed: bool,
}

impl<R: Algorithm> Locked<R> {
    /// Creates the cell of a rule that is in force since then, with a given state, or a fresh one.
    pub(super) fn new(
        algorithm: R,
        state: Option<R::State>,
        ruled_since: Timestamp,
        replacement: Arc<Replacement<dyn Cell>>,
    ) -> Self {
        let began_later = state.is_none();
        let slot = Mutex::new(Slot { state, began_later, closed: false });
        Self { algorithm, slot, ruled_since, replacement }
    }

    /// Locks the state; `None` if the cell is closed.
    fn lock(&self) -> Option<MutexGuard<'_, Slot<R>>> {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        (!slot.closed).then_some(slot)
    }
}

impl<R: Algorithm> Cell for Locked<R> {
    fn reads_early(&self) -> bool {
        false
    }

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        let Some(mut slot) = self.lock() else {
            return self.replacement.admits(cost, Reading::joined(early, clock));
        };
        let now = clock.now();
        let state = slot.state.get_or_insert_with(|| self.algorithm.fresh(now));
        self.algorithm.ask(state, now, cost).is_allowed()
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let Some(mut slot) = self.lock() else { return self.replacement.step(cost, step, reading) };
        // A bucket that begins with fewer tokens exists after a reset, and is full.
        let stays_unborn =
            slot.state.is_none() && !step.begins(cost) && !matches!(step, Step::Reset { .. });
        // A state remembers since when its rule has its meaning; where there was none, the cell does.
        let step = match slot.began_later {
            true => step.dated(self.ruled_since, &Rates::default()),
            false => step,
        };
        let one = step.run(&self.algorithm, &mut slot.state, cost, reading.anew());
        if stays_unborn {
            slot.state = None;
        }
        one
    }

    fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        match self.lock() {
            Some(slot) => preview(&self.algorithm, slot.state.clone(), reading.anew()),
            None => self.replacement.preview(reading),
        }
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Box<dyn Cell> {
        let state = self.lock().and_then(|mut slot| {
            slot.closed = true;
            slot.state.take()
        });
        followed_under(rule, &self.algorithm, state, reading.anew())
    }
}
