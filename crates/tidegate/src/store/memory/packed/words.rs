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

    /// Returns whether the words of a state would cut it off.
    fn is_cut(&self, state: &R::State, now: Timestamp) -> bool {
        !stays_whole::<_, WORDS>(&self.common.rules.algorithm, self.base, state, now)
    }

    /// Returns the words for a state from another table. A state that would be cut off is spilled, even without memory
    /// for it.
    pub(super) fn words_of_moved(
        &self,
        fingerprint: Fingerprint,
        state: &R::State,
        at: Timestamp,
    ) -> [u64; WORDS] {
        if !self.is_cut(state, at) {
            return self.pack(state);
        }
        self.spilled.keep(&self.common, fingerprint, state, true);
        Self::SPILLED
    }

    /// Returns the state that the words of a limiter stand for.
    #[inline]
    pub(super) fn unpack(&self, fingerprint: Fingerprint, mut words: [u64; WORDS]) -> R::State {
        if is_spilled(words) {
            if let Some(state) = self.spilled.get(fingerprint) {
                return state;
            }
            // A mark without a state decides as an idle limiter would.
            words = [0; WORDS];
        }
        self.common.rules.algorithm.unpack(self.base, words)
    }

    pub(super) fn pack(&self, state: &R::State) -> [u64; WORDS] {
        self.common.rules.algorithm.pack(self.base, state)
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
        let Some(state) = state else { return [0; WORDS] };
        let is_spilled = may_be
            && self.is_cut(&state, now)
            && self.spilled.keep(&self.common, fingerprint, &state, false);
        if is_spilled { Self::SPILLED } else { self.pack(&state) }
    }

    /// Drops the spilled state of a limiter, if its words say that it has one.
    #[inline]
    pub(super) fn forget_spilled(&self, fingerprint: Fingerprint, words: [u64; WORDS]) {
        if is_spilled(words) {
            self.spilled.forget(&self.common, fingerprint);
        }
    }
}
