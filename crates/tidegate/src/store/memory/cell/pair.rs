//! A limiter with a state of two words, with a lock bit in the first.

use std::sync::Arc;

use tidegate_core::{Algorithm, Rule, Timestamp};

use super::spilled::{Fits, Spilled, run_spilled, words_of};
use super::{Cell, LOCKED, followed_under};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use crate::store::memory::parameters::stays_whole;
use crate::store::memory::preview::{Preview, preview};
use crate::store::memory::replacement::Replacement;
use crate::store::memory::spin::Spin;
use crate::store::memory::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The words of a spilled state: they stand for none that fits.
const SPILLED: [u64; 2] = [!LOCKED, u64::MAX];

/// A state in two words; the free bit of the first is the lock over both. A closed cell stays locked for ever.
#[derive(Debug)]
pub(super) struct Pair<R: Algorithm> {
    algorithm: R,
    base: Timestamp,
    first: AtomicU64,
    second: AtomicU64,
    /// Used only while the words are locked.
    spilled: Spilled<R>,
    /// 1 if closed.
    closed: AtomicU32,
    replacement: Arc<Replacement<dyn Cell>>,
}

impl<R: Algorithm> Pair<R> {
    /// Creates a fresh cell; packed times count from `base`.
    pub(super) fn new(
        algorithm: R,
        base: Timestamp,
        replacement: Arc<Replacement<dyn Cell>>,
    ) -> Self {
        Self {
            algorithm,
            base,
            first: AtomicU64::new(0),
            second: AtomicU64::new(0),
            spilled: Spilled::default(),
            closed: AtomicU32::new(0),
            replacement,
        }
    }

    /// Locks both words and returns them; `None` if the cell is closed.
    fn lock(&self) -> Option<[u64; 2]> {
        let mut spin = Spin::default();
        loop {
            let first = self.first.load(Relaxed) & !LOCKED;
            if self.first.compare_exchange_weak(first, first | LOCKED, Acquire, Relaxed).is_ok() {
                return Some([first, self.second.load(Relaxed)]);
            }
            if self.closed.load(Acquire) != 0 {
                return None;
            }
            spin.wait();
        }
    }

    /// Closes the cell; returns its state.
    fn end(&self) -> Option<R::State> {
        let words = self.lock().filter(|words| *words != [0; 2]);
        self.closed.store(1, Release);
        words.and_then(|words| self.state(words))
    }

    /// The state that the locked words stand for.
    fn state(&self, words: [u64; 2]) -> Option<R::State> {
        match words {
            SPILLED => self.spilled.lock().clone(),
            words => Some(self.algorithm.unpack(self.base, words)),
        }
    }

    /// Runs a step on the spilled state of the locked words, and unlocks them.
    #[cold]
    fn step_spilled(&self, cost: u64, step: Step, now: Timestamp) -> One {
        let mut spilled = self.spilled.lock();
        let what = (cost, step);
        let (one, fits) = run_spilled(&self.algorithm, self.base, &mut spilled, what, now);
        drop(spilled);
        self.unlock(if let Fits::Words(words) = fits { words } else { SPILLED });
        one
    }

    /// Stores both words, and unlocks them.
    fn unlock(&self, words: [u64; 2]) {
        self.second.store(words[1], Relaxed);
        self.first.store(words[0], Release);
    }
}

impl<R: Algorithm> Cell for Pair<R> {
    fn reads_early(&self) -> bool {
        true
    }

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        let Some(words) = self.lock() else {
            return self.replacement.admits(cost, Reading::joined(early, clock));
        };
        if words == SPILLED {
            return self.step_spilled(cost, Step::Decide, early).verdict.is_allowed();
        }
        let mut next = words;
        let allowed = self.algorithm.ask_packed(self.base, &mut next, early, cost).is_allowed();
        self.unlock(if allowed { next } else { words });
        allowed
    }

    fn step(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let Some(words) = self.lock() else { return self.replacement.step(cost, step, reading) };
        if words == SPILLED {
            return self.step_spilled(cost, step, reading.early());
        }
        let mut slot = Some(self.algorithm.unpack(self.base, words));
        let now = self.algorithm.overtaken(slot.as_ref(), reading.early());
        let one = step.run(&self.algorithm, &mut slot, cost, now);
        if !step.changes(one.verdict, cost) {
            self.unlock(words);
            return one;
        }
        let is_cut = |state| !stays_whole::<_, 2>(&self.algorithm, self.base, state, now);
        if step.may_not_fit(cost) && slot.as_ref().is_some_and(is_cut) {
            *self.spilled.lock() = slot;
            self.unlock(SPILLED);
        } else {
            self.unlock(words_of(&self.algorithm, self.base, slot));
        }
        one
    }

    fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        let Some(words) = self.lock() else { return self.replacement.preview(reading) };
        let state = self.state(words);
        self.unlock(words);
        let now = self.algorithm.overtaken(state.as_ref(), reading.early());
        preview(&self.algorithm, state, now)
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Box<dyn Cell> {
        followed_under(rule, &self.algorithm, self.end(), reading.anew())
    }
}
