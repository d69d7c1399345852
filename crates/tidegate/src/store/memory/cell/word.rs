//! A limiter with a state of one word: the verbs run on a copy, which then replaces it by compare-and-swap.

use std::sync::Arc;

use tidegate_core::{Algorithm, Rule, Timestamp};

use super::{Cell, LOCKED, followed_under, followed_whole};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use crate::store::memory::parameters::stays_whole;
use crate::store::memory::preview::{Preview, preview};
use crate::store::memory::replacement::Replacement;
use crate::store::memory::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire},
};

/// The value of a closed word.
const CLOSED: u64 = LOCKED;

/// A state in one word.
#[derive(Debug)]
pub(super) struct Word<R: Algorithm> {
    algorithm: R,
    base: Timestamp,
    word: AtomicU64,
    replacement: Arc<Replacement<dyn Cell>>,
}

impl<R: Algorithm> Word<R> {
    /// Creates a fresh cell; packed times count from `base`.
    pub(super) fn new(
        algorithm: R,
        base: Timestamp,
        replacement: Arc<Replacement<dyn Cell>>,
    ) -> Self {
        Self { algorithm, base, word: AtomicU64::new(0), replacement }
    }

    /// Closes the cell; returns its state.
    fn end(&self) -> Option<R::State> {
        let word = self.word.swap(CLOSED, AcqRel);
        (word != 0).then(|| self.algorithm.unpack(self.base, [word]))
    }
}

impl<R: Algorithm> Cell for Word<R> {
    fn reads_early(&self) -> bool {
        true
    }

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        let mut word = self.word.load(Acquire);
        loop {
            if word & CLOSED != 0 {
                return self.replacement.admits(cost, Reading::joined(early, clock));
            }
            let mut state = self.algorithm.unpack(self.base, [word]);
            if !self.algorithm.ask(&mut state, early, cost).is_allowed() {
                return false;
            }
            let [next] = self.algorithm.pack(self.base, &state);
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
                return self.replacement.step(cost, step, reading);
            }
            let mut slot = Some(self.algorithm.unpack(self.base, [word]));
            let one = step.run(&self.algorithm, &mut slot, cost, reading.early());
            let Some(state) = slot.filter(|_| step.changes(one.verdict, cost)) else { return one };
            if step.owes(cost)
                && !stays_whole::<_, 1>(&self.algorithm, self.base, &state, reading.early())
            {
                self.replacement.follow(|| followed_whole(&self.algorithm, self.end()));
                return self.replacement.step(cost, step, reading);
            }
            let [next] = self.algorithm.pack(self.base, &state);
            match self.word.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return one,
                Err(other) => word = other,
            }
        }
    }

    fn reset(&self, reading: Reading<'_>) {
        let mut word = self.word.load(Acquire);
        while word & CLOSED == 0 {
            match self.word.compare_exchange_weak(word, 0, AcqRel, Acquire) {
                Ok(_) => return,
                Err(other) => word = other,
            }
        }
        self.replacement.reset(reading);
    }

    fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        match self.word.load(Acquire) {
            word if word & CLOSED != 0 => self.replacement.preview(reading),
            word => {
                let state = self.algorithm.unpack(self.base, [word]);
                preview(&self.algorithm, Some(state), reading.early())
            }
        }
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Box<dyn Cell> {
        followed_under(rule, &self.algorithm, self.end(), reading.anew())
    }
}
