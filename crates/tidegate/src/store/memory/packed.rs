//! Limiters whose states fit one word: three to a cache line, with their fingerprints.
//!
//! A debt may not fit: the word then says that its state is spilled.

mod chains;
mod held;
mod line;
mod lines;
mod spilled;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use tidegate_core::{Algorithm, Timestamp};

use super::budget::Budget;
use super::estate::Estate;
use super::fixed::FixedEntry;
use super::inherited::{Inherited, stays_whole};
use super::later::Later;
use super::overflow::Overflow;
use super::parameters::Parameters;
use super::preview::{Preview, preview};
use super::sync::{AtomicU32, Ordering::Relaxed};
use super::table::{Hold, Legacy, Part, Table};
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::rules::OnFull;
use crate::step::{One, Step};
use chains::{Chain, Chains, Place};
use spilled::{SPILLED, Spilled};

/// Chains looked through for limiters as good as new before one more chain is made.
const SWEPT_PER_GROWTH: u32 = 2;
/// The same when there is no room for one. Whoever looks next goes on where this one ended, so all
/// chains come round.
const SWEPT_WHEN_FULL: u32 = 16;

/// A table of packed states.
#[derive(Debug)]
pub(super) struct Packed<R: Algorithm> {
    rules: Parameters<R>,
    /// What packed times count from.
    base: Timestamp,
    chains: Chains,
    spilled: Spilled<R>,
    budget: Arc<Budget>,
    overflow: Overflow<FixedEntry<R>>,
    /// The chain that is looked through next.
    next_swept: AtomicU32,
    later: Arc<Later<dyn Table>>,
}

impl<R: Algorithm> Packed<R> {
    pub(super) fn new(
        algorithm: R,
        base: Timestamp,
        budget: Arc<Budget>,
        on_full: OnFull,
        later: Arc<Later<dyn Table>>,
    ) -> Self {
        let chains = Chains::for_keys(budget.most_keys());
        Self {
            // What fits a word has nothing beside it.
            rules: Parameters::packed(algorithm),
            base,
            chains,
            spilled: Spilled::default(),
            budget,
            overflow: Overflow::new(on_full),
            next_swept: AtomicU32::new(0),
            later,
        }
    }

    /// Begins with limiters that were another table's.
    pub(super) fn inherit(&self, from: Inherited<R>, now: Timestamp) {
        let shared = from.shared.map(|state| FixedEntry(Some(state)));
        self.overflow.inherit(&self.rules, &self.budget, shared);
        self.budget.take_over(from.limiters.len());
        for (fingerprint, state) in from.limiters {
            // None is closed that nobody has seen yet.
            let Some(chain) = self.chains.lock(fingerprint) else { continue };
            let word = match stays_whole(&self.rules.algorithm, self.base, &state, now) {
                true => self.pack(&state),
                false => {
                    self.spilled.inherit(fingerprint, &state, &self.budget);
                    SPILLED
                }
            };
            self.add(&chain, fingerprint, word);
            drop(chain);
            if self.chains.are_full(self.budget.keys()) {
                self.chains.grow();
            }
        }
    }

    /// The state that the word of a limiter stands for.
    #[inline]
    fn unpack(&self, fingerprint: Fingerprint, word: u64) -> R::State {
        let spilled = if word == SPILLED { self.spilled.get(fingerprint) } else { None };
        spilled.unwrap_or_else(|| self.rules.algorithm.unpack(self.base, [word & !SPILLED, 0]))
    }

    fn pack(&self, state: &R::State) -> u64 {
        self.rules.algorithm.pack(self.base, state)[0]
    }

    /// The word for a state, which is spilled if it would be cut off: it `may_be` after a debt. Where
    /// there is no memory for that, it is cut off.
    fn word(
        &self,
        fingerprint: Fingerprint,
        state: Option<R::State>,
        may_be: bool,
        now: Timestamp,
    ) -> u64 {
        let is_cut =
            |state: &R::State| may_be && !stays_whole(&self.rules.algorithm, self.base, state, now);
        match state {
            None => 0,
            Some(state)
                if is_cut(&state) && self.spilled.keep(fingerprint, &state, &self.budget) =>
            {
                SPILLED
            }
            Some(state) => self.pack(&state),
        }
    }

    /// Forgets the state that the word of a limiter says is spilled, if it does.
    #[inline]
    fn forget_spilled(&self, fingerprint: Fingerprint, word: u64) {
        if word == SPILLED {
            self.spilled.forget(fingerprint, &self.budget);
        }
    }

    /// Replaces a state; one that packs to nothing is idle, and goes.
    fn store(&self, chain: &Chain<'_>, place: Place<'_>, fingerprint: Fingerprint, word: u64) {
        if word != SPILLED {
            self.forget_spilled(fingerprint, place.state());
        }
        if word == 0 {
            chain.clear(place);
            self.budget.release(1);
        } else {
            place.set_state(word);
        }
    }

    /// Adds a limiter whose place is claimed.
    fn add(&self, chain: &Chain<'_>, fingerprint: Fingerprint, word: u64) {
        let place = if word == 0 { None } else { chain.make_room() };
        match place {
            Some(place) => place.put(fingerprint, word),
            None => {
                self.forget_spilled(fingerprint, word);
                self.budget.release(1);
            }
        }
    }

    /// Finds room for one more limiter, after a look for some that can go; claims it if it `stays`.
    fn find_room(&self, stays: bool, now: Timestamp) -> bool {
        let found = || if stays { self.budget.claim() } else { self.budget.has_room() };
        found() || {
            self.sweep(SWEPT_WHEN_FULL, now);
            found()
        }
    }

    /// Drops limiters that are idle from the next few chains that nobody holds; answers
    /// how many.
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

    /// Drops limiters that are idle from a locked chain; answers how many.
    fn sweep_chain(&self, chain: &Chain<'_>, now: Timestamp) -> usize {
        let swept = chain.sweep(|fingerprint, word| {
            let goes = self.rules.algorithm.is_idle(&self.unpack(fingerprint, word), now);
            if goes {
                self.forget_spilled(fingerprint, word);
            }
            goes
        });
        self.budget.release(swept);
        swept
    }

    /// Makes room for the future when a limiter was added and its chain is free again: by dropping
    /// some that can go, else by one more chain.
    fn tend(&self, now: Timestamp) {
        if self.chains.are_full(self.budget.keys()) && self.sweep(SWEPT_PER_GROWTH, now) == 0 {
            self.chains.grow();
        }
    }

    /// A step with a limiter that is in the table.
    #[inline]
    fn with_found(
        &self,
        chain: &Chain<'_>,
        place: Place<'_>,
        fingerprint: Fingerprint,
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> One {
        let before = place.state();
        let mut slot = Some(self.unpack(fingerprint, before));
        let (one, changed) = step.run(&self.rules.algorithm, &mut slot, cost, now);
        if changed {
            let may_be_cut = step.owes(cost) || before == SPILLED;
            self.store(chain, place, fingerprint, self.word(fingerprint, slot, may_be_cut, now));
        }
        one
    }

    /// What `admits` answers where the state is spilled.
    #[cold]
    fn admits_spilled(
        &self,
        chain: &Chain<'_>,
        place: Place<'_>,
        fingerprint: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> bool {
        self.with_found(chain, place, fingerprint, cost, Step::Decide, now).verdict.is_allowed()
    }

    /// A step with a limiter that is not in the table.
    #[cold]
    fn with_new(
        &self,
        chain: Chain<'_>,
        fingerprint: Fingerprint,
        cost: u64,
        step: Step,
        reading: Reading<'_>,
    ) -> One {
        let now = reading.early();
        let stays = step.takes(cost);
        // The last look is into the chain at hand, which a sweep passes over as locked.
        let has_room = self.find_room(stays, now)
            || self.sweep_chain(&chain, now) > 0 && self.find_room(stays, now);
        if !has_room {
            drop(chain);
            let part = Part::alone(fingerprint, cost, step);
            let shared = Part { step: step.beyond(cost), ..part };
            let one = self.overflow.one(&self.rules, &self.budget, &shared, reading);
            return one.unwrap_or_else(|| self.later.one(&part, reading));
        }
        let mut slot = None;
        let (one, changed) = step.run(&self.rules.algorithm, &mut slot, cost, now);
        if stays {
            let taken = slot.filter(|_| changed);
            self.add(&chain, fingerprint, self.word(fingerprint, taken, step.owes(cost), now));
            drop(chain);
            self.tend(now);
        }
        one
    }
}

impl<R: Algorithm> Table for Packed<R> {
    fn reads_early(&self) -> bool {
        true
    }

    fn admits(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        early: Timestamp,
        clock: &dyn Clock,
    ) -> bool {
        let reading = || Reading::joined(early, clock);
        let Some(chain) = self.chains.lock(fingerprint) else {
            return self.later.admits(fingerprint, cost, reading());
        };
        let Some(place) = chain.find(fingerprint) else {
            return self
                .with_new(chain, fingerprint, cost, Step::Decide, reading())
                .verdict
                .is_allowed();
        };
        let word = place.state();
        if word == SPILLED {
            return self.admits_spilled(&chain, place, fingerprint, cost, early);
        }
        let mut state = self.rules.algorithm.unpack(self.base, [word, 0]);
        let allowed = self.rules.algorithm.ask(&mut state, early, cost).is_allowed();
        if allowed {
            place.set_state(self.pack(&state));
        }
        allowed
    }

    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> One {
        let Part { fingerprint, cost, step, .. } = *part;
        let Some(chain) = self.chains.lock(fingerprint) else {
            return self.later.one(part, reading);
        };
        match chain.find(fingerprint) {
            Some(place) => self.with_found(&chain, place, fingerprint, cost, step, reading.early()),
            None => self.with_new(chain, fingerprint, cost, step, reading),
        }
    }

    fn shared(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let part = Part::alone(Fingerprint::FIRST, cost, step);
        let one = self.overflow.one(&self.rules, &self.budget, &part, reading);
        one.unwrap_or_else(|| self.later.shared(cost, step, reading))
    }

    fn hold<'a>(&'a self, parts: &[Part<'a>], now: Timestamp) -> Option<Box<dyn Hold + 'a>> {
        self.hold_chains(parts, now)
    }

    fn touch(&self, fingerprint: Fingerprint) -> u64 {
        self.chains.touch(fingerprint)
    }

    fn forget(&self, fingerprint: Fingerprint) {
        let Some(chain) = self.chains.lock(fingerprint) else {
            return self.later.forget(fingerprint);
        };
        if let Some(place) = chain.find(fingerprint) {
            self.store(&chain, place, fingerprint, 0);
        }
    }

    fn tidy(&self, now: Timestamp) {
        self.sweep(SWEPT_WHEN_FULL, now);
    }

    fn keys(&self) -> usize {
        if self.later.has_begun() { self.later.keys() } else { self.budget.keys() }
    }

    fn preview(&self, part: &Part<'_>, reading: Reading<'_>) -> Box<dyn Preview> {
        let fingerprint = part.fingerprint;
        let Some(chain) = self.chains.lock(fingerprint) else {
            return self.later.preview(part, reading);
        };
        let state = chain.find(fingerprint).map(|place| self.unpack(fingerprint, place.state()));
        drop(chain);
        preview(&self.rules.algorithm, state, reading.early())
    }

    fn close(&self) -> Option<Box<dyn Legacy + '_>> {
        let words = self.chains.close().into_iter();
        Some(Box::new(Estate {
            algorithm: &self.rules.algorithm,
            limiters: words
                .map(|(fingerprint, word)| (fingerprint, self.unpack(fingerprint, word)))
                .collect(),
            shared: self.overflow.close().and_then(|entry| entry.0),
            budget: &self.budget,
        }))
    }
}
