//! The state of a cell that does not fit its words.

use std::sync::PoisonError;

use tidegate_core::{Algorithm, Timestamp};

use crate::step::{One, Step};
use crate::store::memory::parameters::stays_whole;
use crate::store::memory::sync::{Mutex, MutexGuard};

/// A state next to the words of a cell, while the words say that it is there.
#[derive(Debug)]
pub(super) struct Spilled<R: Algorithm>(Mutex<Option<R::State>>);

/// Where a step leaves a state.
pub(super) enum Fits<const WORDS: usize> {
    /// It fits these words.
    Words([u64; WORDS]),
    /// It is spilled.
    Not,
}

impl<R: Algorithm> Default for Spilled<R> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<R: Algorithm> Spilled<R> {
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<R::State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a step on a spilled state; says where the state is afterwards.
pub(super) fn run_spilled<R: Algorithm, const WORDS: usize>(
    algorithm: &R,
    base: Timestamp,
    slot: &mut Option<R::State>,
    (cost, step): (u64, Step),
    now: Timestamp,
) -> (One, Fits<WORDS>) {
    let before = slot.clone();
    let now = algorithm.overtaken(slot.as_ref(), now);
    let one = step.run(algorithm, slot, cost, now);
    if !step.changes(one.verdict, cost) {
        *slot = before;
    }
    let fits =
        slot.as_ref().is_none_or(|state| stays_whole::<_, WORDS>(algorithm, base, state, now));
    match fits {
        true => (one, Fits::Words(words_of(algorithm, base, slot.take()))),
        false => (one, Fits::Not),
    }
}

/// The words of a state, all zero if there is none.
pub(super) fn words_of<R: Algorithm, const WORDS: usize>(
    algorithm: &R,
    base: Timestamp,
    state: Option<R::State>,
) -> [u64; WORDS] {
    state.map_or([0; WORDS], |state| algorithm.pack(base, &state))
}
