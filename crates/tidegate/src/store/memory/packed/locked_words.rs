//! The words of a packed limiter, its chain locked: all that most steps over several limiters replace.

use std::array::from_fn;

use tidegate_core::{Algorithm, Timestamp};

use super::Packed;
use super::line::Lock;
use super::spilled::is_spilled;
use crate::key::Fingerprint;
use crate::step::{One, Step};
use crate::store::memory::succession::{GenerationNumber, Moved};
use crate::store::memory::sync::{AtomicU64, Ordering::Relaxed};

/// The most words of a packed state.
const MOST_WORDS: usize = 6;

/// The words of a limiter in any table of packed states, and those that a step leaves there.
#[derive(Debug)]
pub(in crate::store::memory) struct LockedWords<'a> {
    /// Unlocks the chain.
    _lock: Lock<'a>,
    kept: &'a [AtomicU64],
    next: [u64; MOST_WORDS],
    changed: bool,
}

impl LockedWords<'_> {
    /// Whether the last step leaves other words.
    pub(in crate::store::memory) const fn are_changed(&self) -> bool {
        self.changed
    }

    /// Stores the words that the last step leaves, and unlocks.
    #[inline]
    pub(in crate::store::memory) fn store(self) {
        if self.changed {
            self.kept.iter().zip(self.next).for_each(|(to, word)| to.store(word, Relaxed));
        }
    }
}

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Packed<R, PLACES, WORDS> {
    /// Locks the chain of a limiter; `None`, and nothing is locked, if the limiter is not in the table, or if its state
    /// is spilled.
    #[inline]
    pub(super) fn words_of(
        &self,
        fingerprint: Fingerprint,
        generation: GenerationNumber,
    ) -> Result<Option<LockedWords<'_>>, Moved> {
        let chain = self.lock(fingerprint, generation)?;
        let Some(place) = chain.find(fingerprint) else { return Ok(None) };
        if is_spilled(place.state()) {
            return Ok(None);
        }
        let (kept, next) = (place.words(), [0; MOST_WORDS]);
        Ok(Some(LockedWords { _lock: chain.into_lock(), kept, next, changed: false }))
    }

    /// Runs a step and keeps the words that it leaves; `None` if it leaves an idle limiter, which is dropped.
    #[inline]
    pub(super) fn run_on_words(
        &self,
        locked: &mut LockedWords<'_>,
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> Option<One> {
        let words = from_fn(|index| locked.kept.get(index).map_or(0, |word| word.load(Relaxed)));
        let mut slot = Some(self.rules.algorithm.unpack::<WORDS>(self.base, words));
        let one = step.run(&self.rules.algorithm, &mut slot, cost, now);
        locked.changed = step.changes(one.verdict, cost);
        if locked.changed {
            let words = self.pack(&slot?);
            if words == [0; WORDS] {
                return None;
            }
            locked.next.iter_mut().zip(words).for_each(|(next, word)| *next = word);
        }
        Some(one)
    }
}
