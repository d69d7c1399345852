//! Limiters whose states fit one word: three to a cache line, with their fingerprints.

mod chains;
mod line;
mod lines;

use std::sync::{Arc, MutexGuard};

use tidegate_core::{Room, Timestamp};

use super::budget::Budget;
use super::hands::{self, Hand, Shared, Standing};
use super::sync::{AtomicU32, Ordering::Relaxed};
use super::table::{Hold, Holding, OnFull, One, Part, Step, Table};
use crate::clock::Reading;
use crate::key::Fingerprint;
use chains::{Chain, Chains, Place};

/// Chains looked through for limiters as good as new before one more chain is made.
const SWEPT_PER_GROWTH: u32 = 2;
/// The same when there is no room for one.
const SWEPT_WHEN_FULL: u32 = 16;

/// A table of packed states.
#[derive(Debug)]
pub(super) struct Packed<R: Room> {
    room: R,
    /// What packed times count from.
    base: Timestamp,
    chains: Chains,
    budget: Arc<Budget>,
    shared: Shared<R>,
    /// The chain that is looked through next.
    next_swept: AtomicU32,
}

impl<R: Room> Packed<R> {
    pub(super) fn new(room: R, base: Timestamp, budget: Arc<Budget>, on_full: OnFull) -> Self {
        let chains = Chains::for_keys(budget.most_keys());
        Self {
            room,
            base,
            chains,
            budget,
            shared: Shared::new(on_full),
            next_swept: AtomicU32::new(0),
        }
    }

    fn unpack(&self, word: u64) -> R::State {
        self.room.unpack(self.base, [word, 0])
    }

    fn pack(&self, state: &R::State) -> u64 {
        self.room.pack(self.base, state)[0]
    }

    /// Replaces a state; one that packs to nothing is as good as new, and goes.
    fn store(&self, chain: &Chain<'_>, place: Place<'_>, word: u64) {
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
            None => self.budget.release(1),
        }
    }

    /// Claims a place for one more limiter, after a look for some that can go.
    fn claim(&self, now: Timestamp) -> bool {
        self.budget.claim() || {
            self.sweep(SWEPT_WHEN_FULL, now);
            self.budget.claim()
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
        let swept = chain.sweep(|word| self.room.is_as_good_as_new(&self.unpack(word), now));
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
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> One {
        let mut slot = Some(self.unpack(place.state()));
        let (one, changed) = step.run(&self.room, &mut slot, cost, now);
        if let Some(state) = slot.filter(|_| changed) {
            self.store(chain, place, self.pack(&state));
        }
        one
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
        let stays = step.begins() && cost > 0;
        // The last look is into the chain at hand, which a sweep passes over as locked.
        let has_room =
            || self.claim(now) || self.sweep_chain(&chain, now) > 0 && self.budget.claim();
        if stays && !has_room() {
            drop(chain);
            return self.shared.one(&self.room, cost, step, reading);
        }
        let mut slot = None;
        let (one, changed) = step.run(&self.room, &mut slot, cost, now);
        if stays {
            let taken = slot.filter(|_| changed);
            self.add(&chain, print, taken.map_or(0, |state| self.pack(&state)));
            drop(chain);
            self.tend(now);
        }
        one
    }
}

impl<R: Room> Table for Packed<R> {
    fn admits(&self, print: Fingerprint, cost: u64, reading: Reading<'_>) -> bool {
        let Some(chain) = self.chains.lock(print) else {
            return self.shared.one(&self.room, cost, Step::Decide, reading).verdict.is_allowed();
        };
        let Some(place) = chain.find(print) else {
            return self.with_new(chain, print, cost, Step::Decide, reading).verdict.is_allowed();
        };
        let mut state = self.unpack(place.state());
        let allowed = self.room.ask(&mut state, reading.early(), cost).is_allowed();
        if allowed {
            place.set_state(self.pack(&state));
        }
        allowed
    }

    fn one(&self, print: Fingerprint, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let Some(chain) = self.chains.lock(print) else {
            return self.shared.one(&self.room, cost, step, reading);
        };
        match chain.find(print) {
            Some(place) => self.with_found(&chain, place, cost, step, reading.early()),
            None => self.with_new(chain, print, cost, step, reading),
        }
    }

    fn hold(&self, parts: &[Part], step: Step, now: Timestamp) -> Box<dyn Hold + '_> {
        let chains = self.lock_all(parts);
        let hands: Vec<_> =
            parts.iter().map(|part| self.take_in_hand(&chains, *part, step, now)).collect();
        let beyond = hands.iter().any(|hand| hand.standing == Standing::Beyond);
        let shared = if beyond { self.shared.lock() } else { None };
        Box::new(HeldChains { table: self, chains, hands, shared })
    }

    fn touch(&self, print: Fingerprint) -> u64 {
        self.chains.touch(print)
    }

    fn tidy(&self, now: Timestamp) {
        self.sweep(SWEPT_WHEN_FULL, now);
    }

    fn keys(&self) -> usize {
        self.budget.keys()
    }
}

/// Limiters of one table in hand, their chains locked.
#[derive(Debug)]
struct HeldChains<'a, R: Room> {
    table: &'a Packed<R>,
    chains: Vec<Chain<'a>>,
    hands: Vec<Hand<R>>,
    shared: Option<MutexGuard<'a, Option<R::State>>>,
}

impl<R: Room> Packed<R> {
    /// Locks the chains of all parts, in the order of their numbers.
    fn lock_all(&self, parts: &[Part]) -> Vec<Chain<'_>> {
        loop {
            let mut numbers: Vec<_> =
                parts.iter().map(|part| self.chains.number_of(part.print)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let chains =
                numbers.iter().filter_map(|number| self.chains.lock_number(*number)).collect();
            // A chain may have been split before its lock was had; none can be from now on.
            let holds =
                |part: &Part| numbers.binary_search(&self.chains.number_of(part.print)).is_ok();
            if parts.iter().all(holds) {
                return chains;
            }
        }
    }

    fn take_in_hand(
        &self,
        chains: &[Chain<'_>],
        part: Part,
        step: Step,
        now: Timestamp,
    ) -> Hand<R> {
        let found = find(chains, &self.chains, part.print);
        let slot = found.map(|place| self.unpack(place.state()));
        let standing = match slot {
            Some(_) => Standing::There,
            None if !step.begins() || part.cost == 0 => Standing::Absent,
            None if self.claim(now) => Standing::Claimed,
            None => Standing::Beyond,
        };
        Hand { part, slot, standing }
    }
}

/// Where a limiter is in the chains that are locked.
fn find<'a>(chains: &[Chain<'a>], of: &Chains, print: Fingerprint) -> Option<Place<'a>> {
    of_print(chains, of, print)?.find(print)
}

fn of_print<'c, 'a>(
    chains: &'c [Chain<'a>],
    of: &Chains,
    print: Fingerprint,
) -> Option<&'c Chain<'a>> {
    let number = of.number_of(print);
    chains.iter().find(|chain| chain.number() == number)
}

impl<R: Room> Hold for HeldChains<'_, R> {
    fn held(&mut self) -> Vec<Holding<'_>> {
        hands::held(&self.table.room, &mut self.hands, self.shared.as_deref_mut())
    }

    fn release(mut self: Box<Self>, at: Timestamp) {
        let table = self.table;
        let mut added = false;
        for hand in &mut self.hands {
            let word = hand.slot.take().map_or(0, |state| table.pack(&state));
            let Some(chain) = of_print(&self.chains, &table.chains, hand.part.print) else {
                continue;
            };
            match (hand.standing, chain.find(hand.part.print)) {
                (Standing::There, Some(place)) => table.store(chain, place, word),
                (Standing::Claimed, _) => {
                    table.add(chain, hand.part.print, word);
                    added = true;
                }
                _ => {}
            }
        }
        drop(self);
        if added {
            table.tend(at);
        }
    }

    fn forget(self: Box<Self>) {
        for hand in self.hands.iter().filter(|hand| hand.standing == Standing::There) {
            let print = hand.part.print;
            let Some(chain) = of_print(&self.chains, &self.table.chains, print) else { continue };
            if let Some(place) = chain.find(print) {
                self.table.store(chain, place, 0);
            }
        }
    }
}
