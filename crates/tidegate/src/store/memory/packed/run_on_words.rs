//! Steps that replace no more than the words of a limiter.

use std::array::from_fn;

use tidegate_core::{Algorithm, Timestamp};

use super::Packed;
use super::spilled::is_spilled;
use crate::key::Fingerprint;
use crate::step::{One, Step};
use crate::store::memory::locked_words::{LockedWords, MOST_WORDS};
use crate::store::memory::succession::{GenerationNumber, Moved};
use crate::store::memory::sync::Ordering::Relaxed;

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
