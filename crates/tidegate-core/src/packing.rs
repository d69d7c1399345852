//! Packing the states of an algorithm into words.
//!
//! A store in memory keeps most states in this form, several in a cache line. `Pack` is the trait of the algorithms
//! that can do so.

use crate::decide::Decide;
use crate::decision::Verdict;
use crate::time::{Micros, Timestamp};

/// States that are packed into a few words, for a store that has many. By default states are not packed.
pub trait Pack: Decide {
    /// Returns into how many words states can be packed, if at all, for a store whose clock never steps back (most
    /// packed states do not keep the time of their last unit). Called once, when a store is built.
    ///
    /// Every state within the limit fits. A debt may not fit: [`Pack::pack`] stops it at the largest value that does,
    /// and the rest would come back as a credit. Such debts come only from taking beyond the limit, as a settled
    /// reservation does, and from carrying over a state of another rule. The store checks for them: it unpacks the
    /// packed state, and does not pack it if the two differ.
    fn packing(&self) -> Packing {
        Packing::Unpacked
    }

    /// Packs the state into words; all zero is an idle state. `base` is an instant before every state, by at most
    /// [`HORIZON`]. A debt too large for the words is cut off: see [`Pack::packing`].
    ///
    /// There are as many words as [`Pack::packing`] says, or more; the rest are zero.
    fn pack<const WORDS: usize>(&self, _base: Timestamp, _state: &Self::State) -> [u64; WORDS] {
        [0; WORDS]
    }

    /// Unpacks a state that was packed with the same `base`; all zero is an idle limiter.
    fn unpack<const WORDS: usize>(&self, base: Timestamp, _words: [u64; WORDS]) -> Self::State {
        self.fresh(base)
    }

    /// The reading with which a state moves on in a store whose clock never steps back. A reading from before the last unit was
    /// overtaken on its way here, and [`Decide::advance`] must not take it for a step of the clock by more than W.
    #[inline]
    fn overtaken(&self, state: Option<&Self::State>, now: Timestamp) -> Timestamp {
        state.map_or(now, |state| now.max(self.last(state).minus(self.window())))
    }

    /// Runs [`Decide::ask`] on a packed state. The words are of the state afterwards if the verdict is
    /// [`Verdict::Allow`]; otherwise they have no meaning, and the state is as before.
    #[inline(always)]
    fn ask_packed<const WORDS: usize>(
        &self,
        base: Timestamp,
        words: &mut [u64; WORDS],
        now: Timestamp,
        cost: u64,
    ) -> Verdict {
        if cost == 0 {
            return Verdict::Allow;
        }
        let mut state = self.unpack(base, *words);
        // The clock of the store never steps back: an earlier reading was overtaken on its way here. A packed state has
        // no past that could drop parts.
        let at = now.max(self.last(&state));
        let verdict = self.decide(&state, at, cost);
        if verdict.is_allowed() {
            self.take(&mut state, at, cost);
            *words = self.pack(base, &state);
        }
        verdict
    }
}

/// The smallest form of the states of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// One word of 63 bits.
    One,
    /// Two words, the first of 63 bits.
    Two,
    /// Six words, the first of 63 bits: with a fingerprint and a lock they fill a cache line.
    Six,
    /// States that cannot be packed.
    Unpacked,
}

/// The time for which a store of packed states can run: 2^48 microseconds, nearly nine years.
pub const HORIZON: Micros = Micros::from_micros(1 << 48);

/// The bits of a packed state's first word; a store uses the bit above them.
pub(crate) const WORD_BITS: u32 = 63;

/// Returns the words as an array of another length; missing words are zero.
#[inline]
pub(crate) fn resized<const FROM: usize, const TO: usize>(words: [u64; FROM]) -> [u64; TO] {
    let mut all = [0; TO];
    all.iter_mut().zip(words).for_each(|(to, word)| *to = word);
    all
}
