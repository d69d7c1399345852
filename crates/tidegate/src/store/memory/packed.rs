//! Limiters whose states fit one word: three to a cache line, with their fingerprints.
//!
//! A debt may not fit: the word then says that its state is kept whole, aside.

mod aside;
mod chains;
mod held;
mod line;
mod lines;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use tidegate_core::{Room, Timestamp};

use super::ahead::{Ahead, ahead};
use super::budget::Budget;
use super::estate::Estate;
use super::fixed::FixedEntry;
use super::inherited::{Inherited, stays_whole};
use super::later::Later;
use super::overflow::Overflow;
use super::parameters::Parameters;
use super::sync::{AtomicU32, Ordering::Relaxed};
use super::table::{Hold, Legacy, Part, Table};
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::rules::OnFull;
use crate::step::{One, Step};
use aside::{ASIDE, Aside};
use chains::{Chain, Chains, Place};

/// Chains looked through for limiters as good as new before one more chain is made.
const SWEPT_PER_GROWTH: u32 = 2;
/// The same when there is no room for one. Whoever looks next goes on where this one ended, so all
/// chains come round.
const SWEPT_WHEN_FULL: u32 = 16;

/// A table of packed states.
#[derive(Debug)]
pub(super) struct Packed<R: Room> {
    rules: Parameters<R>,
    /// What packed times count from.
    base: Timestamp,
    chains: Chains,
    aside: Aside<R>,
    budget: Arc<Budget>,
    overflow: Overflow<FixedEntry<R>>,
    /// The chain that is looked through next.
    next_swept: AtomicU32,
    later: Arc<Later<dyn Table>>,
}

impl<R: Room> Packed<R> {
    pub(super) fn new(
        room: R,
        base: Timestamp,
        budget: Arc<Budget>,
        on_full: OnFull,
        later: Arc<Later<dyn Table>>,
    ) -> Self {
        let chains = Chains::for_keys(budget.most_keys());
        Self {
            // What fits a word has nothing beside it.
            rules: Parameters::packed(room),
            base,
            chains,
            aside: Aside::default(),
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
        for (print, state) in from.limiters {
            // None is closed that nobody has seen yet.
            let Some(chain) = self.chains.lock(print) else { continue };
            let word = match stays_whole(&self.rules.room, self.base, &state, now) {
                true => self.pack(&state),
                false => {
                    self.aside.inherit(print, &state, &self.budget);
                    ASIDE
                }
            };
            self.add(&chain, print, word);
            drop(chain);
            if self.chains.are_full(self.budget.keys()) {
                self.chains.grow();
            }
        }
    }

    /// The state that the word of a limiter stands for.
    #[inline]
    fn unpack(&self, print: Fingerprint, word: u64) -> R::State {
        let kept_aside = if word == ASIDE { self.aside.get(print) } else { None };
        kept_aside.unwrap_or_else(|| self.rules.room.unpack(self.base, [word & !ASIDE, 0]))
    }

    fn pack(&self, state: &R::State) -> u64 {
        self.rules.room.pack(self.base, state)[0]
    }

    /// The word for a state, which is kept aside if it would be cut off: it `may_be` after a debt. Where
    /// there is no memory for that, it is cut off.
    fn word(
        &self,
        print: Fingerprint,
        state: Option<R::State>,
        may_be: bool,
        now: Timestamp,
    ) -> u64 {
        let is_cut =
            |state: &R::State| may_be && !stays_whole(&self.rules.room, self.base, state, now);
        match state {
            None => 0,
            Some(state) if is_cut(&state) && self.aside.keep(print, &state, &self.budget) => ASIDE,
            Some(state) => self.pack(&state),
        }
    }

    /// Forgets the state that the word of a limiter says is kept aside, if it does.
    #[inline]
    fn forget_aside(&self, print: Fingerprint, word: u64) {
        if word == ASIDE {
            self.aside.forget(print, &self.budget);
        }
    }

    /// Replaces a state; one that packs to nothing is as good as new, and goes.
    fn store(&self, chain: &Chain<'_>, place: Place<'_>, print: Fingerprint, word: u64) {
        if word != ASIDE {
            self.forget_aside(print, place.state());
        }
        if word == 0 {
            chain.clear(place);
            self.budget.release(1);
        } else {
            place.set_state(word);
        }
    }

    /// Adds a limiter whose place is claimed.
    fn add(&self, chain: &Chain<'_>, print: Fingerprint, word: u64) {
        let place = if word == 0 { None } else { chain.make_room() };
        match place {
            Some(place) => place.put(print, word),
            None => {
                self.forget_aside(print, word);
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

    /// Drops limiters that are as good as new from the next few chains that nobody holds; answers
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

    /// Drops limiters that are as good as new from a locked chain; answers how many.
    fn sweep_chain(&self, chain: &Chain<'_>, now: Timestamp) -> usize {
        let swept = chain.sweep(|print, word| {
            let goes = self.rules.room.is_as_good_as_new(&self.unpack(print, word), now);
            if goes {
                self.forget_aside(print, word);
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
        print: Fingerprint,
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> One {
        let before = place.state();
        let mut slot = Some(self.unpack(print, before));
        let (one, changed) = step.run(&self.rules.room, &mut slot, cost, now);
        if changed {
            let may_be_cut = step.owes(cost) || before == ASIDE;
            self.store(chain, place, print, self.word(print, slot, may_be_cut, now));
        }
        one
    }

    /// What `admits` answers where the state is kept aside.
    #[cold]
    fn admits_aside(
        &self,
        chain: &Chain<'_>,
        place: Place<'_>,
        print: Fingerprint,
        cost: u64,
        now: Timestamp,
    ) -> bool {
        self.with_found(chain, place, print, cost, Step::Decide, now).verdict.is_allowed()
    }

    /// A step with a limiter that is not in the table.
    #[cold]
    fn with_new(
        &self,
        chain: Chain<'_>,
        print: Fingerprint,
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
            let part = Part::alone(print, cost, step);
            let shared = Part { step: step.beyond(cost), ..part };
            let one = self.overflow.one(&self.rules, &self.budget, &shared, reading);
            return one.unwrap_or_else(|| self.later.one(&part, reading));
        }
        let mut slot = None;
        let (one, changed) = step.run(&self.rules.room, &mut slot, cost, now);
        if stays {
            let taken = slot.filter(|_| changed);
            self.add(&chain, print, self.word(print, taken, step.owes(cost), now));
            drop(chain);
            self.tend(now);
        }
        one
    }
}

impl<R: Room> Table for Packed<R> {
    fn reads_early(&self) -> bool {
        true
    }

    fn admits(&self, print: Fingerprint, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        let reading = || Reading::joined(early, clock);
        let Some(chain) = self.chains.lock(print) else {
            return self.later.admits(print, cost, reading());
        };
        let Some(place) = chain.find(print) else {
            return self.with_new(chain, print, cost, Step::Decide, reading()).verdict.is_allowed();
        };
        let word = place.state();
        if word == ASIDE {
            return self.admits_aside(&chain, place, print, cost, early);
        }
        let mut state = self.rules.room.unpack(self.base, [word, 0]);
        let allowed = self.rules.room.ask(&mut state, early, cost).is_allowed();
        if allowed {
            place.set_state(self.pack(&state));
        }
        allowed
    }

    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> One {
        let Part { print, cost, step, .. } = *part;
        let Some(chain) = self.chains.lock(print) else {
            return self.later.one(part, reading);
        };
        match chain.find(print) {
            Some(place) => self.with_found(&chain, place, print, cost, step, reading.early()),
            None => self.with_new(chain, print, cost, step, reading),
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

    fn touch(&self, print: Fingerprint) -> u64 {
        self.chains.touch(print)
    }

    fn forget(&self, print: Fingerprint) {
        let Some(chain) = self.chains.lock(print) else { return self.later.forget(print) };
        if let Some(place) = chain.find(print) {
            self.store(&chain, place, print, 0);
        }
    }

    fn tidy(&self, now: Timestamp) {
        self.sweep(SWEPT_WHEN_FULL, now);
    }

    fn keys(&self) -> usize {
        if self.later.has_begun() { self.later.keys() } else { self.budget.keys() }
    }

    fn ahead(&self, part: &Part<'_>, reading: Reading<'_>) -> Box<dyn Ahead> {
        let print = part.print;
        let Some(chain) = self.chains.lock(print) else {
            return self.later.ahead(part, reading);
        };
        let state = chain.find(print).map(|place| self.unpack(print, place.state()));
        drop(chain);
        ahead(&self.rules.room, state, reading.early())
    }

    fn close(&self) -> Option<Box<dyn Legacy + '_>> {
        let words = self.chains.close().into_iter();
        Some(Box::new(Estate {
            room: &self.rules.room,
            limiters: words.map(|(print, word)| (print, self.unpack(print, word))).collect(),
            shared: self.overflow.close().and_then(|entry| entry.0),
            budget: &self.budget,
        }))
    }
}
