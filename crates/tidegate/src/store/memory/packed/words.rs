//! The words of a state, in a line or in mark of a spilled state.

use tidegate_core::{Algorithm, Timestamp};

use super::Packed;
use super::spilled::{SPILLED, is_spilled};
use crate::key::Fingerprint;
use crate::store::memory::parameters::stays_whole;

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Packed<R, PLACES, WORDS> {
    /// The words of a limiter whose state is spilled.
    const SPILLED: [u64; WORDS] = {
        let mut words = [0; WORDS];
        words[0] = SPILLED;
        words
    };

    /// Returns the words for a state from another table. A state that would be cut off is spilled, even without memory
    /// for it.
    pub(super) fn words_of_moved(
        &self,
        fingerprint: Fingerprint,
        state: &R::State,
        at: Timestamp,
    ) -> [u64; WORDS] {
        if stays_whole::<_, WORDS>(&self.rules.algorithm, self.base, state, at) {
            return self.pack(state);
        }
        self.spilled.adopt(&self.rules.algorithm, fingerprint, state, &self.budget);
        Self::SPILLED
    }

    /// Returns the state that the words of a limiter stand for.
    #[inline]
    pub(super) fn unpack(&self, fingerprint: Fingerprint, mut words: [u64; WORDS]) -> R::State {
        if is_spilled(words) {
            if let Some(state) = self.spilled.get(fingerprint) {
                return state;
            }
            words = [0; WORDS];
        }
        self.rules.algorithm.unpack(self.base, words)
    }

    pub(super) fn pack(&self, state: &R::State) -> [u64; WORDS] {
        self.rules.algorithm.pack(self.base, state)
    }

    /// Returns the words for a state. A state that would be cut off, which it `may_be` after a debt, is spilled, or
    /// cut off if there is no memory for that.
    pub(super) fn words(
        &self,
        fingerprint: Fingerprint,
        state: Option<R::State>,
        may_be: bool,
        now: Timestamp,
    ) -> [u64; WORDS] {
        let is_cut = |state: &R::State| {
            may_be && !stays_whole::<_, WORDS>(&self.rules.algorithm, self.base, state, now)
        };
        match state {
            None => [0; WORDS],
            Some(state)
                if is_cut(&state)
                    && self.spilled.keep(
                        &self.rules.algorithm,
                        fingerprint,
                        &state,
                        &self.budget,
                    ) =>
            {
                Self::SPILLED
            }
            Some(state) => self.pack(&state),
        }
    }

    /// Drops the spilled state of a limiter, if its words say that it has one.
    #[inline]
    pub(super) fn forget_spilled(&self, fingerprint: Fingerprint, words: [u64; WORDS]) {
        if is_spilled(words) {
            self.spilled.forget(&self.rules.algorithm, fingerprint, &self.budget);
        }
    }
}
