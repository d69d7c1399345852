//! The words of a packed limiter, its chain locked. Most steps over several limiters replace only these.

use std::array::from_fn;
use std::fmt;

use tidegate_core::{Algorithm, Timestamp};

use super::Packed;
use super::lines::Lock;
use super::spilled::is_spilled;
use crate::key::Fingerprint;
use crate::step::{One, Step};
use crate::store::memory::succession::{GenerationNumber, Moved};
use crate::store::memory::sync::{AtomicU64, Ordering::Relaxed};

/// The maximum number of words of a packed state.
const MOST_WORDS: usize = 6;

/// A table of packed states, of any algorithm.
pub(in crate::store::memory) trait RunOnWords: fmt::Debug {
    /// Runs a step and keeps the words that it leaves.
    fn run_on_words(
        &self,
        locked: &mut LockedWords<'_>,
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> One;

    /// Drops a limiter whose words are all zero, which is idle.
    fn drop_if_empty(&self, fingerprint: Fingerprint);
}

/// The words of a limiter in any table of packed states, and the words that a step leaves there.
#[derive(Debug)]
pub(in crate::store::memory) struct LockedWords<'a> {
    table: &'a dyn RunOnWords,
    fingerprint: Fingerprint,
    /// Unlocks the chain.
    _lock: Lock<'a>,
    kept: &'a [AtomicU64],
    next: [u64; MOST_WORDS],
    /// True if the last step leaves other words.
    pub(in crate::store::memory) changed: bool,
}

impl<'a> LockedWords<'a> {
    /// Runs a step, which stores nothing yet, in place of the last.
    #[inline]
    pub(in crate::store::memory) fn run(&mut self, cost: u64, step: Step, now: Timestamp) -> One {
        self.table.run_on_words(self, cost, step, now)
    }

    /// Stores the words that the last step leaves. If they are all zero, returns the limiter to drop once it is unlocked.
    #[inline]
    pub(in crate::store::memory) fn store(&self) -> Option<(&'a dyn RunOnWords, Fingerprint)> {
        if self.changed {
            // The unlocking publishes them.
            self.kept.iter().zip(self.next).for_each(|(to, word)| to.store(word, Relaxed));
        }
        let is_idle = self.changed && self.next == [0; MOST_WORDS];
        is_idle.then_some((self.table, self.fingerprint))
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
        let kept = place.words();
        let next = [0; MOST_WORDS];
        let lock = chain.into_lock();
        Ok(Some(LockedWords { table: self, fingerprint, _lock: lock, kept, next, changed: false }))
    }
}

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> RunOnWords
    for Packed<R, PLACES, WORDS>
{
    fn run_on_words(
        &self,
        locked: &mut LockedWords<'_>,
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> One {
        let words = from_fn(|index| locked.kept.get(index).map_or(0, |word| word.load(Relaxed)));
        let mut slot = Some(self.common.rules.algorithm.unpack::<WORDS>(self.base, words));
        // The clock was read with the chains locked, so no earlier step has a later time.
        let one = step.run(&self.common.rules.algorithm, &mut slot, cost, now);
        locked.changed = step.changes(one.verdict, cost);
        if locked.changed {
            let words = slot.map_or([0; WORDS], |state| self.pack(&state));
            locked.next.iter_mut().zip(words).for_each(|(next, word)| *next = word);
        }
        one
    }

    #[cold]
    fn drop_if_empty(&self, fingerprint: Fingerprint) {
        let Some(chain) = self.chains.lock(fingerprint) else { return };
        // It was unlocked since, and another step may have taken from it.
        if let Some(place) = chain.find(fingerprint)
            && place.state() == [0; WORDS]
        {
            self.store(&chain, place, fingerprint, [0; WORDS]);
        }
    }
}
