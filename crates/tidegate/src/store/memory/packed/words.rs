//! Steps that replace no more than the words of a limiter: the part of a packed table in a quick step over several.

use std::array::from_fn;

use tidegate_core::{Algorithm, Timestamp};

use super::Packed;
use crate::key::Fingerprint;
use crate::step::{One, Step};
use crate::store::memory::locked_words::{LockedWords, RunOnWords};
use crate::store::memory::sync::Ordering::Relaxed;

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
