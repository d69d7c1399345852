//! Limiters whose states fit one word, two or six: three, two or one to a cache line, with their fingerprints.
//!
//! This is the table of most rules, and the fast path of a gate: it finds the chain of a fingerprint (`chains`),
//! locks it, and runs the step on the words of the place (`lines`). A debt may not fit: the first word is then
//! marked, and the state is `spilled`. `home` has the slow path, for steps over several limiters and for moves;
//! `words` the quick way for several.

mod chains;
mod home;
mod lines;
mod spilled;
mod words;

use std::sync::Arc;

use tidegate_core::{Algorithm, Timestamp};

use super::budget::{Budget, Need};
use super::common::Common;
use super::fixed::FixedEntry;
use super::home::Home as _;
use super::locked_words::{LockedWords, MOST_WORDS};
use super::parameters::Parameters;
use super::succession::{GenerationNumber, Moved, Succession};
use super::sync::{AtomicU32, Ordering::Relaxed};
use super::table::{Overflow as _, Part, Table};
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::step::{One, Step};
use chains::{Chain, Chains};
use lines::{Place, is_spilled};
use spilled::Spilled;

/// Chains that are swept when there is no room. Each sweep starts where the previous sweep ended, so all chains get
/// their turn.
const SWEPT_WHEN_FULL: u32 = 16;

/// A table of packed states.
#[derive(Debug)]
pub(super) struct Packed<R: Algorithm, const PLACES: usize = 3, const WORDS: usize = 1> {
    pub(super) common: Common<FixedEntry<R>>,
    /// The base of packed times.
    base: Timestamp,
    chains: Chains<PLACES, WORDS>,
    spilled: Spilled<R>,
    /// The chain that is swept next.
    next_swept: AtomicU32,
}

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Packed<R, PLACES, WORDS> {
    /// The bytes that are counted for a limiter of more than one word: a line for the limiters that it has place for,
    /// and half a line for lines that are not full. Limiters of one word are bounded by their number.
    pub(super) const BYTES: usize = if WORDS > 1 { 96 / PLACES } else { 0 };

    pub(super) fn new(
        algorithm: R,
        base: Timestamp,
        budget: Arc<Budget>,
        succession: Succession<dyn Table>,
    ) -> Self {
        // More limiters may have to be moved here than may be created here.
        let chains = Chains::for_keys(budget.most_keys().max(budget.keys()));
        // Packed states need no memory next to their words.
        let common = Common::new(Parameters::packed(algorithm), budget, succession);
        let (spilled, next_swept) = (Spilled::default(), AtomicU32::new(0));
        let table = Self { common, base, chains, spilled, next_swept };
        table.common.budget.has_space_for_one_of(table.bytes_of_one());
        table
    }

    /// Locks the chain of a limiter, after moving the limiter there if it is in an old table.
    #[inline(always)]
    fn lock(
        &self,
        fingerprint: Fingerprint,
        generation: GenerationNumber,
    ) -> Result<Chain<'_, PLACES, WORDS>, Moved> {
        // Chains of fingerprints always exist.
        let Some(chain) = self.chains.lock(fingerprint) else { return Err(Moved) };
        // Read with the chain locked: a step that sees no mark
        // comes before any limiter is moved out (succession.rs).
        match self.common.succession.check(generation) {
            Ok(false) => Ok(chain),
            Ok(true) => Ok(self.with_moved(chain, fingerprint)),
            Err(Moved) => Err(Moved),
        }
    }

    /// Moves a limiter to its locked chain, unless that was done. The chain is passed and returned by value, which
    /// keeps it in registers if nothing is moved.
    #[cold]
    fn with_moved<'a>(
        &self,
        mut chain: Chain<'a, PLACES, WORDS>,
        fingerprint: Fingerprint,
    ) -> Chain<'a, PLACES, WORDS> {
        self.move_in(&mut chain, fingerprint);
        chain
    }

    /// Returns the state that the words of a limiter stand for.
    #[inline]
    fn unpack(&self, fingerprint: Fingerprint, mut words: [u64; WORDS]) -> R::State {
        if is_spilled(words) {
            if let Some(state) = self.spilled.get(fingerprint) {
                return state;
            }
            // A mark without a state decides as an idle limiter would.
            words = [0; WORDS];
        }
        self.common.rules.algorithm.unpack(self.base, words)
    }

    fn pack(&self, state: &R::State) -> [u64; WORDS] {
        self.common.rules.algorithm.pack(self.base, state)
    }

    /// Returns the words for a state. A state that would be cut off, which it `may_be` after a debt, is spilled, or
    /// cut off if there is no memory for that.
    #[inline]
    fn words(
        &self,
        fingerprint: Fingerprint,
        state: Option<R::State>,
        may_be: bool,
        now: Timestamp,
    ) -> [u64; WORDS] {
        let Some(state) = state else { return [0; WORDS] };
        let is_spilled = may_be && self.spill(fingerprint, &state, now);
        if is_spilled { Self::SPILLED } else { self.pack(&state) }
    }

    /// Replaces a state; drops the limiter if the state packs to nothing, which is an idle one.
    fn store(
        &self,
        chain: &Chain<'_, PLACES, WORDS>,
        place: Place<'_, PLACES, WORDS>,
        fingerprint: Fingerprint,
        words: [u64; WORDS],
    ) {
        if !is_spilled(words) {
            self.forget_spilled(fingerprint, place.state());
        }
        // Giving everything back frees the place only if the state says nothing more. A window that began with its
        // first unit still has an end, which decides when the next begins: it stays until a sweep finds it over.
        if words == [0; WORDS] {
            chain.clear(place);
            self.release(1);
        } else {
            place.set_state(words);
        }
    }

    /// Drops the spilled state of a limiter, if its words say that it has one.
    #[inline]
    pub(super) fn forget_spilled(&self, fingerprint: Fingerprint, words: [u64; WORDS]) {
        if is_spilled(words) {
            self.spilled.forget(&self.common, fingerprint);
        }
    }

    /// Adds a limiter to a claimed place.
    fn add(&self, chain: &Chain<'_, PLACES, WORDS>, fingerprint: Fingerprint, words: [u64; WORDS]) {
        let place = if words == [0; WORDS] { None } else { chain.make_space() };
        match place {
            Some(place) => place.put(fingerprint, words),
            // The state is idle, or there are no more lines: its place is free again.
            None => {
                self.forget_spilled(fingerprint, words);
                self.release(1);
            }
        }
    }

    /// Uncounts limiters and their bytes.
    fn release(&self, limiters: usize) {
        self.common.budget.resize(limiters * Self::BYTES, 0);
        self.common.budget.release(limiters);
    }

    /// The bytes of a limiter, and the bytes that it needs `next`. Some of the latter are reserved: new limiters cannot
    /// use them.
    const fn need(next: usize) -> Need {
        Need { first: Self::BYTES, next }
    }

    /// Claims a place and its bytes, if there is room.
    fn claim(&self, next: usize) -> bool {
        match WORDS {
            1 => self.common.budget.claim(),
            _ => self.common.budget.claim_with_memory(Self::need(next)),
        }
    }

    /// Finds room for one more limiter, sweeping if necessary; claims it if it `stays`.
    fn find_space(&self, stays: bool, now: Timestamp) -> bool {
        self.has_space(stays) || {
            self.sweep(SWEPT_WHEN_FULL, now);
            self.has_space(stays)
        }
    }

    /// Returns whether there is room for one more limiter; claims it if it `stays`.
    fn has_space(&self, stays: bool) -> bool {
        if stays {
            self.claim(Spilled::<R>::BYTES)
        } else if WORDS > 1 {
            self.common.budget.has_memory_for(Self::need(Spilled::<R>::BYTES))
        } else {
            self.common.budget.has_space()
        }
    }

    /// Drops idle limiters from the next few unlocked chains; returns their number.
    fn sweep(&self, chains: u32, now: Timestamp) -> usize {
        let mut swept = 0;
        for _ in 0..chains {
            let number = self.next_swept.fetch_add(1, Relaxed) % self.chains.count();
            if let Some(chain) = self.chains.try_lock(number) {
                swept += self.sweep_chain(&chain, now);
            }
        }
        swept
    }

    /// Drops idle limiters from a locked chain; returns their number.
    fn sweep_chain(&self, chain: &Chain<'_, PLACES, WORDS>, now: Timestamp) -> usize {
        let swept = chain.sweep(|fingerprint, words| {
            let goes = self.common.rules.algorithm.is_idle(&self.unpack(fingerprint, words), now);
            if goes {
                self.forget_spilled(fingerprint, words);
            }
            goes
        });
        self.common.budget.resize(swept * Self::BYTES, 0);
        self.common.budget.release_idle(swept);
        swept
    }

    /// Runs a step on a limiter that is in the table.
    #[inline]
    fn with_found(
        &self,
        chain: &Chain<'_, PLACES, WORDS>,
        place: Place<'_, PLACES, WORDS>,
        fingerprint: Fingerprint,
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> One {
        let before = place.state();
        let mut slot = Some(self.unpack(fingerprint, before));
        // The clock was read before the chain was locked, so another step may have a later time already.
        let now = self.common.rules.algorithm.overtaken(slot.as_ref(), now);
        let one = step.run(&self.common.rules.algorithm, &mut slot, cost, now);
        if step.changes(one.verdict, cost) {
            let may_be_cut = step.may_not_fit(cost) || is_spilled(before);
            self.store(chain, place, fingerprint, self.words(fingerprint, slot, may_be_cut, now));
        }
        one
    }

    /// [`Table::admits`] for a spilled state.
    #[cold]
    fn admits_spilled(
        &self,
        chain: &Chain<'_, PLACES, WORDS>,
        place: Place<'_, PLACES, WORDS>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> bool {
        self.with_found(chain, place, fingerprint, cost, Step::Decide, now).verdict.is_allowed()
    }

    /// Runs a step on a limiter that is not in the table.
    #[cold]
    fn with_new(
        &self,
        chain: Chain<'_, PLACES, WORDS>,
        fingerprint: Fingerprint,
        cost: u64,
        step: Step,
        generation: GenerationNumber,
        reading: Reading<'_>,
    ) -> Result<One, Moved> {
        let now = reading.early();
        let stays = step.takes(cost);
        // The sweep above skipped this chain, because it is locked.
        let has_space = self.find_space(stays, now)
            || self.sweep_chain(&chain, now) > 0 && self.find_space(stays, now);
        if !has_space {
            // No place was claimed and nothing is stored here: the overflow limiter decides by itself.
            drop(chain);
            let (step, cost) = step.beyond(cost);
            let part = Part::alone(fingerprint, cost, step);
            return self.common.one(&Part { generation, ..part }, reading);
        }
        let mut slot = None;
        let one = step.run(&self.common.rules.algorithm, &mut slot, cost, now);
        if stays {
            let taken = slot.filter(|_| step.changes(one.verdict, cost));
            self.add(
                &chain,
                fingerprint,
                self.words(fingerprint, taken, step.may_not_fit(cost), now),
            );
            // Growing locks chains, so this chain is unlocked first.
            drop(chain);
            self.tend(now);
        }
        Ok(one)
    }
}

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Table for Packed<R, PLACES, WORDS> {
    fn reads_early(&self) -> bool {
        true
    }

    fn admits(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        early: Timestamp,
        clock: &dyn Clock,
    ) -> Result<bool, Moved> {
        let chain = self.lock(fingerprint, 0)?;
        let Some(place) = chain.find(fingerprint) else {
            let reading = Reading::joined(early, clock);
            let one = self.with_new(chain, fingerprint, cost, Step::Decide, 0, reading)?;
            return Ok(one.verdict.is_allowed());
        };
        let mut words = place.state();
        if is_spilled(words) {
            return Ok(self.admits_spilled(&chain, place, fingerprint, cost, early));
        }
        let algorithm = &self.common.rules.algorithm;
        // Decided on the words, which an algorithm may do without unpacking them.
        let allowed = algorithm.ask_packed(self.base, &mut words, early, cost).is_allowed();
        if allowed {
            place.set_state(words);
        }
        Ok(allowed)
    }

    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        let Part { fingerprint, cost, step, generation, .. } = *part;
        let chain = self.lock(fingerprint, generation)?;
        match chain.find(fingerprint) {
            Some(place) => {
                Ok(self.with_found(&chain, place, fingerprint, cost, step, reading.early()))
            }
            None => self.with_new(chain, fingerprint, cost, step, generation, reading),
        }
    }

    fn lock_words(
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
        // The lock without the chain's type, which has the numbers of places and words.
        let lock = chain.into_lock();
        Ok(Some(LockedWords { table: self, fingerprint, _lock: lock, kept, next, changed: false }))
    }

    fn touch(&self, fingerprints: &[Fingerprint]) -> u64 {
        self.chains.touch(fingerprints)
    }

    fn tidy(&self, now: Timestamp) {
        self.sweep(SWEPT_WHEN_FULL, now);
    }

    fn bytes_of_one(&self) -> usize {
        if WORDS > 1 { Self::BYTES + Spilled::<R>::BYTES } else { 0 }
    }

    fn packed_bytes(&self) -> usize {
        if WORDS > 1 { 0 } else { self.chains.bytes() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
