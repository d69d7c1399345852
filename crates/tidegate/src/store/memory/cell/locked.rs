//! A limiter whose state is kept whole, under a lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Room, Rule, Timestamp};

use super::{Cell, Heir};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use crate::store::memory::ahead::{Ahead, ahead};
use crate::store::memory::later::Later;

/// A whole state under a lock.
#[derive(Debug)]
pub(super) struct Locked<R: Room> {
    room: R,
    slot: Mutex<Slot<R>>,
    later: Arc<Later<dyn Cell>>,
}

#[derive(Debug)]
struct Slot<R: Room> {
    state: Option<R::State>,
    closed: bool,
}

impl<R: Room> Locked<R> {
    /// With a state to begin with, or as new.
    pub(super) fn new(room: R, state: Option<R::State>, later: Arc<Later<dyn Cell>>) -> Self {
        Self { room, slot: Mutex::new(Slot { state, closed: false }), later }
    }

    /// Locks; `None` when it is closed.
    fn lock(&self) -> Option<MutexGuard<'_, Slot<R>>> {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        (!slot.closed).then_some(slot)
    }
}

impl<R: Room> Cell for Locked<R> {
    fn reads_early(&self) -> bool {
        false
    }

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        let Some(mut slot) = self.lock() else {
            return self.later.admits(cost, Reading::joined(early, clock));
        };
        let now = clock.now();
        let state = slot.state.get_or_insert_with(|| self.room.fresh(now));
        self.room.ask(state, now, cost).is_allowed()
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let Some(mut slot) = self.lock() else { return self.later.step(cost, step, reading) };
        let stays_unborn = slot.state.is_none() && !step.begins(cost);
        let (one, _) = step.run(&self.room, &mut slot.state, cost, reading.anew());
        if stays_unborn {
            slot.state = None;
        }
        one
    }

    fn forget(&self) {
        match self.lock() {
            Some(mut slot) => slot.state = None,
            None => self.later.forget(),
        }
    }

    fn ahead(&self, reading: Reading<'_>) -> Box<dyn Ahead> {
        match self.lock() {
            Some(slot) => ahead(&self.room, slot.state.clone(), reading.anew()),
            None => self.later.ahead(reading),
        }
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Option<Box<dyn Cell>> {
        let state = self.lock().and_then(|mut slot| {
            slot.closed = true;
            slot.state.take()
        });
        rule.visit(Heir { old: &self.room, state, now: reading.anew() })
    }
}
