//! A limiter with a state of one word: the verbs run on a copy, which then replaces it by compare-and-swap.

use std::sync::Arc;

use tidegate_core::{Algorithm, Rule, Timestamp};

use super::spilled::{Fits, Spilled, run_spilled, words_of};
use super::{Cell, LOCKED, followed_under};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step};
use crate::store::memory::parameters::stays_whole;
use crate::store::memory::preview::{Preview, preview};
use crate::store::memory::replacement::Replacement;
use crate::store::memory::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire},
};

/// The bit of a word that holds no state.
const ELSEWHERE: u64 = LOCKED;
/// The value of a closed word.
const CLOSED: u64 = ELSEWHERE;
/// The value of the word of a spilled state. Only the thread that has locked that state changes it, or closes the cell.
const SPILLED: u64 = ELSEWHERE | 1;

/// A state in one word.
#[derive(Debug)]
pub(super) struct Word<R: Algorithm> {
    algorithm: R,
    base: Timestamp,
    word: AtomicU64,
    spilled: Spilled<R>,
    replacement: Arc<Replacement<dyn Cell>>,
}

impl<R: Algorithm> Word<R> {
    /// Creates a fresh cell; packed times count from `base`.
    pub(super) fn new(
        algorithm: R,
        base: Timestamp,
        replacement: Arc<Replacement<dyn Cell>>,
    ) -> Self {
        let (word, spilled) = (AtomicU64::new(0), Spilled::default());
        Self { algorithm, base, word, spilled, replacement }
    }

    /// Closes the cell; returns its state.
    fn end(&self) -> Option<R::State> {
        match self.word.swap(CLOSED, AcqRel) {
            0 | CLOSED => None,
            SPILLED => self.spilled.lock().take(),
            word => Some(self.algorithm.unpack(self.base, [word])),
        }
    }

    /// Spills the state that a step leaves in place of `word`. If the word has changed, the error returns the current
    /// word.
    #[cold]
    fn spill(&self, word: u64, state: R::State) -> Result<(), u64> {
        let mut spilled = self.spilled.lock();
        self.word.compare_exchange(word, SPILLED, AcqRel, Acquire)?;
        *spilled = Some(state);
        Ok(())
    }

    /// Runs a step where the word holds no state; `None` if it holds one by then.
    #[cold]
    fn step_elsewhere(&self, cost: u64, step: Step, reading: Reading<'_>) -> Option<One> {
        let mut spilled = self.spilled.lock();
        match self.word.load(Acquire) {
            SPILLED => {}
            CLOSED => {
                drop(spilled);
                return Some(self.replacement.step(cost, step, reading));
            }
            _ => return None,
        }
        let (algorithm, what, now) = (&self.algorithm, (cost, step), reading.early());
        let (one, fits) = run_spilled(algorithm, self.base, &mut spilled, what, now);
        if let Fits::Words([word]) = fits
            && self.word.compare_exchange(SPILLED, word, AcqRel, Acquire).is_err()
        {
            // The cell was closed, and the thread that closed it waits for the state.
            *spilled = Some(algorithm.unpack(self.base, [word]));
        }
        Some(one)
    }
}

impl<R: Algorithm> Cell for Word<R> {
    fn reads_early(&self) -> bool {
        true
    }

    fn admits(&self, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        let mut word = self.word.load(Acquire);
        loop {
            if word & ELSEWHERE != 0 {
                let reading = Reading::joined(early, clock);
                match self.step_elsewhere(cost, Step::Decide, reading) {
                    Some(one) => return one.verdict.is_allowed(),
                    None => word = self.word.load(Acquire),
                }
                continue;
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
            if word & ELSEWHERE != 0 {
                match self.step_elsewhere(cost, step, reading) {
                    Some(one) => return one,
                    None => word = self.word.load(Acquire),
                }
                continue;
            }
            let now = reading.early();
            let mut slot = Some(self.algorithm.unpack(self.base, [word]));
            let one = step.run(&self.algorithm, &mut slot, cost, now);
            if !step.changes(one.verdict, cost) {
                return one;
            }
            let is_cut = |state| !stays_whole::<_, 1>(&self.algorithm, self.base, state, now);
            let replaced = if step.may_not_fit(cost) && slot.as_ref().is_some_and(is_cut) {
                slot.map_or(Ok(()), |state| self.spill(word, state))
            } else {
                let [next] = words_of(&self.algorithm, self.base, slot);
                self.word.compare_exchange_weak(word, next, AcqRel, Acquire).map(drop)
            };
            match replaced {
                Ok(()) => return one,
                Err(other) => word = other,
            }
        }
    }

    fn preview(&self, reading: Reading<'_>) -> Box<dyn Preview> {
        loop {
            let word = self.word.load(Acquire);
            let state = match word {
                CLOSED => return self.replacement.preview(reading),
                SPILLED => self.spilled.lock().clone(),
                word => Some(self.algorithm.unpack(self.base, [word])),
            };
            // The state may have moved back into the word.
            if state.is_some() || self.word.load(Acquire) == word {
                let now = self.algorithm.overtaken(state.as_ref(), reading.early());
                return preview(&self.algorithm, state, now);
            }
        }
    }

    fn close(&self, rule: &Rule, reading: Reading<'_>) -> Box<dyn Cell> {
        followed_under(rule, &self.algorithm, self.end(), reading.anew())
    }
}
