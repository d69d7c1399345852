//! The chains of packed limiters as the home of a table: each unpacked for a step over several, a move or a
//! snapshot.

use tidegate_core::{Algorithm, Timestamp};

use super::Packed;
use super::chains::Chain;
use super::lines::is_spilled;
use crate::key::Fingerprint;
use crate::store::memory::common::Common;
use crate::store::memory::entry::{LockedEntry, Standing};
use crate::store::memory::fixed::FixedEntry;
use crate::store::memory::home::Home;
use crate::store::memory::table::{Part, Restored};

/// Chains that are swept for idle limiters before one more chain is made.
const SWEPT_PER_GROWTH: u32 = 2;

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Home for Packed<R, PLACES, WORDS> {
    type Entry = FixedEntry<R>;
    type Locked<'a> = Chain<'a, PLACES, WORDS>;

    fn common(&self) -> &Common<FixedEntry<R>> {
        &self.common
    }

    fn number_of(&self, fingerprint: Fingerprint) -> u32 {
        self.chains.number_of(fingerprint)
    }

    fn lock_number(&self, number: u32) -> Option<Self::Locked<'_>> {
        // The line of a chain that is being split off is there before the chain counts.
        if number < self.chains.count() { self.chains.lock_number(number) } else { None }
    }

    fn look<O>(
        &self,
        chain: &Self::Locked<'_>,
        fingerprint: Fingerprint,
        look: impl FnOnce(&FixedEntry<R>) -> O,
    ) -> Option<O> {
        let words = chain.find(fingerprint)?.state();
        Some(look(&FixedEntry(Some(self.unpack(fingerprint, words)))))
    }

    fn look_at_all(
        &self,
        chain: &Self::Locked<'_>,
        mut look: impl FnMut(Fingerprint, &FixedEntry<R>),
    ) {
        for (fingerprint, words) in chain.limiters() {
            look(fingerprint, &FixedEntry(Some(self.unpack(fingerprint, words))));
        }
    }

    fn put(
        &self,
        chain: &mut Self::Locked<'_>,
        fingerprint: Fingerprint,
        entry: FixedEntry<R>,
        restored: Option<Timestamp>,
    ) -> Restored {
        let Some(mut state) = entry.0 else { return Restored::Idle };
        let algorithm = &self.common.rules.algorithm;
        let at = restored.unwrap_or(self.common.succession.at);
        // From now on the state has no last unit that would reveal a clock gone back.
        algorithm.advance(&mut state, at);
        // A limiter from an old table has its place; its bytes were uncounted when it left.
        if restored.is_none() {
            self.common.budget.resize(0, Self::BYTES);
        } else if algorithm.is_idle(&state, at) {
            return Restored::Idle;
        } else {
            // A snapshot may have a limiter twice, and the later state is the newer state.
            if let Some(earlier) = chain.find(fingerprint) {
                self.store(chain, earlier, fingerprint, [0; WORDS]);
            }
            if !self.claim(0) {
                return Restored::WithoutSpace;
            }
        }
        self.add(chain, fingerprint, self.words_of_moved(fingerprint, &state, at));
        Restored::Kept
    }

    fn take(
        &self,
        chain: &mut Self::Locked<'_>,
        fingerprint: Fingerprint,
    ) -> Option<FixedEntry<R>> {
        let place = chain.find(fingerprint)?;
        let words = place.state();
        let state = self.unpack(fingerprint, words);
        self.forget_spilled(fingerprint, words);
        chain.clear(place);
        self.common.budget.resize(Self::BYTES, 0);
        Some(FixedEntry(Some(state)))
    }

    fn sweep_all(&self, chain: &mut Self::Locked<'_>, now: Timestamp) {
        self.sweep_chain(chain, now);
    }

    /// Drops idle limiters, or if there are none, adds one more chain.
    fn tend(&self, now: Timestamp) {
        if self.chains.are_full(self.common.budget.keys()) && self.sweep(SWEPT_PER_GROWTH, now) == 0
        {
            self.chains.grow();
        }
    }

    fn lock_entry<'a>(
        &self,
        chain: &mut Self::Locked<'_>,
        part: Part<'a>,
        now: Timestamp,
    ) -> LockedEntry<'a, FixedEntry<R>> {
        let found = chain.find(part.fingerprint);
        let slot = found.map(|place| self.unpack(part.fingerprint, place.state()));
        let stays = part.step.takes(part.cost);
        let standing = match slot {
            Some(_) => Standing::There,
            // A look at a new limiter is refused without room, as the step itself would be.
            None if !self.find_space(stays, now) => {
                return LockedEntry::without(part, Standing::NoSpace);
            }
            None if stays => Standing::Claimed,
            None => Standing::Absent,
        };
        LockedEntry::new(part, standing, FixedEntry(slot), 0)
    }

    fn put_back(
        &self,
        chain: &mut Self::Locked<'_>,
        locked: &mut LockedEntry<'_, FixedEntry<R>>,
        at: Timestamp,
    ) {
        let Part { fingerprint, step, cost, .. } = locked.part;
        let state = locked.end().and_then(|entry| entry.0);
        let may_not_fit = step.may_not_fit(cost);
        match (locked.standing, chain.find(fingerprint)) {
            (Standing::There, Some(place)) => {
                let may_be_cut = may_not_fit || is_spilled(place.state());
                let words = self.words(fingerprint, state, may_be_cut, at);
                self.store(chain, place, fingerprint, words);
            }
            (Standing::Claimed, _) => {
                self.add(chain, fingerprint, self.words(fingerprint, state, may_not_fit, at));
            }
            // It was only looked at, or has no place.
            _ => {}
        }
    }
}
