//! A limiter whose state is one word: replaced by compare-and-swap, on a copy that ran the verbs.

use std::sync::Arc;

use tidegate_core::{Room, Rule, Timestamp};

use super::{Cell, Heir, LOCKED, followed_whole};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use crate::store::memory::ahead::{Ahead, ahead};
use crate::store::memory::inherited::stays_whole;
use crate::store::memory::later::Later;
use crate::store::memory::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire},
};

/// What a closed word holds.
const CLOSED: u64 = LOCKED;

/// A state in one word.
#[derive(Debug)]
pub(super) struct Word<R: Room> {
    room: R,
    base: Timestamp,
    word: AtomicU64,
    later: Arc<Later<dyn Cell>>,
}

impl<R: Room> Word<R> {
    /// As new; packed times count from `base`.
    pub(super) fn new(room: R, base: Timestamp, later: Arc<Later<dyn Cell>>) -> Self {
        Self { room, base, word: AtomicU64::new(0), later }
    }

    /// Closes it; answers its state.
    fn end(&self) -> Option<R::State> {
        let word = self.word.swap(CLOSED, AcqRel);
        (word != 0).then(|| self.room.unpack(self.base, [word, 0]))
    }
}

impl<R: Room> Cell for Word<R> {
    fn reads_early(&self) -> bool {
        true
    }

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        let mut word = self.word.load(Acquire);
        loop {
            if word & CLOSED != 0 {
                return self.later.admits(cost, Reading::joined(early, clock));
            }
            let mut state = self.room.unpack(self.base, [word, 0]);
            if !self.room.ask(&mut state, early, cost).is_allowed() {
                return false;
            }
            let next = self.room.pack(self.base, &state)[0];
            match self.word.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(other) => word = other,
            }
        }
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let mut word = self.word.load(Acquire);
        loop {
            if word & CLOSED != 0 {
                return self.later.step(cost, step, reading);
            }
            let mut slot = Some(self.room.unpack(self.base, [word, 0]));
            let (one, changed) = step.run(&self.room, &mut slot, cost, reading.early());
            let Some(state) = slot.filter(|_| changed) else { return one };
            if step.owes(cost) && !stays_whole(&self.room, self.base, &state, reading.early()) {
                self.later.follow(|| followed_whole(&self.room, self.end()));
                return self.later.step(cost, step, reading);
            }
            let next = self.room.pack(self.base, &state)[0];
            match self.word.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return one,
                Err(other) => word = other,
            }
        }
    }

    fn forget(&self) {
        let mut word = self.word.load(Acquire);
        while word & CLOSED == 0 {
            match self.word.compare_exchange_weak(word, 0, AcqRel, Acquire) {
                Ok(_) => return,
                Err(other) => word = other,
            }
        }
        self.later.forget();
    }

    fn ahead(&self, reading: Reading<'_>) -> Box<dyn Ahead> {
        match self.word.load(Acquire) {
            word if word & CLOSED != 0 => self.later.ahead(reading),
            word => {
                let state = self.room.unpack(self.base, [word, 0]);
                ahead(&self.room, Some(state), reading.early())
            }
        }
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Option<Box<dyn Cell>> {
        rule.visit(Heir { old: &self.room, state: self.end(), now: reading.anew() })
    }
}
