//! Limiters whose states do not fit a word: in shards, each behind a lock that is held shortly.
//!
//! Their bytes are counted, and claimed before they are there: a limiter that begins, and one whose
//! state may grow, first has what it may take at most set aside, and then what it does not take given
//! back. So the cap holds at every moment, whoever does what at once.

mod held;
mod shard;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Room, Timestamp};

use super::ahead::{Ahead, ahead};
use super::budget::{Budget, Need};
use super::estate::Estate;
use super::heap::{most_heap_bytes, need_of};
use super::inherited::Inherited;
use super::later::Later;
use super::overflow::Shared;
use super::shards::{LOOKED_AT_PER_ADDED, LOOKED_AT_WHEN_FULL, SHARDS};
use super::sync::{AtomicUsize, Ordering::Relaxed};
use super::table::{Hold, Legacy, Part, Table};
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::rules::OnFull;
use crate::step::{One, Step};
use shard::{Kept, Shard};

/// A table of whole states.
#[derive(Debug)]
pub(super) struct Whole<R: Room> {
    room: R,
    shards: Box<[Mutex<Shard<R>>]>,
    budget: Arc<Budget>,
    need: Need,
    shared: Shared<R>,
    /// The shard that is looked through next when there is no room.
    next_swept: AtomicUsize,
    later: Arc<Later<dyn Table>>,
}

impl<R: Room> Whole<R> {
    /// What a limiter takes beside the heap of its state.
    pub(super) const BYTES_BESIDE_HEAP: usize = Kept::<R>::BYTES_BESIDE_HEAP;

    pub(super) fn new(
        room: R,
        budget: Arc<Budget>,
        on_full: OnFull,
        later: Arc<Later<dyn Table>>,
    ) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let heap = need_of(&room);
        let need = Need { first: Self::BYTES_BESIDE_HEAP + heap.first, next: heap.next };
        // A log has chunks at both ends that are not full, and one more claimed.
        budget.has_room_for_one_of(need.first + most_heap_bytes(&room) + 3 * need.next);
        let (shared, next_swept) = (Shared::new(on_full, heap), AtomicUsize::new(0));
        Self { room, shards, budget, need, shared, next_swept, later }
    }

    /// Begins with limiters that were another table's, for which there is room.
    pub(super) fn inherit(&self, from: Inherited<R>) {
        self.shared.inherit(&self.room, &self.budget, from.shared);
        self.budget.take_over(from.limiters.len());
        for (print, state) in from.limiters {
            let mut shard = self.lock(Self::shard_of(print));
            shard.insert(print, state, &self.room, &self.budget, 0);
        }
    }

    fn shard_of(print: Fingerprint) -> usize {
        print.words()[0] as usize % SHARDS
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard<R>> {
        // A panic inside a step leaves a shard as it was before or after, never between.
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries to find what was short, after a look for limiters that can go.
    fn after_a_look(&self, shard: &mut Shard<R>, now: Timestamp, found: impl Fn() -> bool) -> bool {
        found()
            || {
                shard.sweep(&self.room, &self.budget, LOOKED_AT_WHEN_FULL, now);
                found()
            }
            || {
                self.tidy(now);
                found()
            }
    }

    /// Finds room for one more limiter in a locked shard; claims it if it `stays`.
    fn find_room(&self, shard: &mut Shard<R>, stays: bool, now: Timestamp) -> bool {
        if stays {
            shard.sweep(&self.room, &self.budget, LOOKED_AT_PER_ADDED, now);
        }
        self.after_a_look(shard, now, || match stays {
            true => self.budget.claim_with_memory(self.need),
            false => self.budget.has_memory_for(self.need),
        })
    }

    /// Bytes that a step may add to a limiter that is there.
    fn growth(&self, step: Step, cost: u64) -> usize {
        if step.grows(cost) { self.need.next } else { 0 }
    }

    /// Claims bytes for a limiter that is there.
    fn claim_growth(&self, shard: &mut Shard<R>, bytes: usize, now: Timestamp) -> bool {
        self.after_a_look(shard, now, || self.budget.claim_bytes(bytes))
    }

    /// Puts a limiter whose place and first bytes are claimed into its shard, or forgets it if it is as
    /// good as new.
    fn add(&self, shard: &mut Shard<R>, print: Fingerprint, slot: Option<R::State>, at: Timestamp) {
        let first = self.need.first;
        match slot.filter(|state| !self.room.is_as_good_as_new(state, at)) {
            Some(state) => shard.insert(print, state, &self.room, &self.budget, first),
            None => {
                self.budget.resize(first, 0);
                self.budget.release(1);
            }
        }
    }

    /// Decides and takes with a limiter that is there and has no need to grow: no figures, nothing to
    /// claim. `None` where it is not there or would grow, or the table is closed.
    #[inline]
    fn ask_found(&self, print: Fingerprint, cost: u64, clock: &dyn Clock) -> Option<bool> {
        let mut shard = self.lock(Self::shard_of(print));
        let kept = shard.get_mut(print)?;
        let state = kept.slot.as_mut().filter(|state| self.room.has_place(state))?;
        let allowed = self.room.ask(state, clock.now(), cost).is_allowed();
        if self.need.next > 0 {
            kept.weigh(&self.room, &self.budget, 0);
        }
        Some(allowed)
    }

    /// A step with a limiter that is in a locked shard; `None` where it is not.
    #[inline]
    fn with_found(
        &self,
        shard: &mut Shard<R>,
        print: Fingerprint,
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> Option<One> {
        let kept = shard.get_mut(print)?;
        let has_place = kept.slot.as_ref().is_some_and(|state| self.room.has_place(state));
        let growth = if has_place { 0 } else { self.growth(step, cost) };
        if !self.budget.claim_bytes(growth) {
            return self.with_cramped(shard, print, cost, step, now);
        }
        Some(self.run(kept, cost, step, now, growth))
    }

    /// A step with a limiter for which so many bytes are claimed.
    #[inline]
    fn run(&self, kept: &mut Kept<R>, cost: u64, step: Step, now: Timestamp, growth: usize) -> One {
        let (one, changed) = step.run(&self.room, &mut kept.slot, cost, now);
        match changed {
            true => kept.weigh(&self.room, &self.budget, growth),
            false => self.budget.resize(growth, 0),
        }
        one
    }

    /// The same where memory is short: limiters that can go are looked for, this one among them, and if
    /// there are none it goes on in the memory that it has.
    #[cold]
    fn with_cramped(
        &self,
        shard: &mut Shard<R>,
        print: Fingerprint,
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> Option<One> {
        let growth = self.growth(step, cost);
        let claimed = self.claim_growth(shard, growth, now);
        if !claimed {
            self.drop_if_as_good_as_new(shard, print, now);
        }
        match shard.get_mut(print) {
            Some(kept) if claimed => Some(self.run(kept, cost, step, now, growth)),
            Some(kept) => {
                let one = step.run_in_place(&self.room, &mut kept.slot, cost, now);
                kept.weigh(&self.room, &self.budget, 0);
                Some(one)
            }
            None => {
                self.budget.resize(if claimed { growth } else { 0 }, 0);
                None
            }
        }
    }

    /// A limiter that can not grow and holds nothing may have no memory for a single unit either: its key
    /// is treated as one that has none.
    fn drop_if_as_good_as_new(&self, shard: &mut Shard<R>, print: Fingerprint, now: Timestamp) {
        let state = shard.get(print).and_then(|kept| kept.slot.as_ref());
        if state.is_some_and(|state| self.room.is_as_good_as_new(state, now)) {
            shard.forget(print, &self.budget);
        }
    }

    /// A step with a limiter that is not in its locked shard; `None` where there is no room for it.
    fn with_new(
        &self,
        shard: &mut Shard<R>,
        print: Fingerprint,
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> Option<One> {
        // Also at no cost, for a bucket that begins with fewer tokens begins to fill then.
        let stays = step.begins(cost);
        if !self.find_room(shard, stays, now) {
            return None;
        }
        let mut slot = None;
        let (one, _) = step.run(&self.room, &mut slot, cost, now);
        if stays {
            self.add(shard, print, slot, now);
        }
        Some(one)
    }
}

impl<R: Room> Table for Whole<R> {
    fn reads_early(&self) -> bool {
        false
    }

    fn admits(&self, print: Fingerprint, cost: u64, early: Timestamp, clock: &dyn Clock) -> bool {
        self.ask_found(print, cost, clock).unwrap_or_else(|| {
            let reading = Reading::joined(early, clock);
            self.one(print, cost, Step::Decide, reading).verdict.is_allowed()
        })
    }

    fn one(&self, print: Fingerprint, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let mut shard = self.lock(Self::shard_of(print));
        if shard.is_closed() {
            drop(shard);
            return self.later.one(print, cost, step, reading);
        }
        let now = reading.anew();
        let one = self
            .with_found(&mut shard, print, cost, step, now)
            .or_else(|| self.with_new(&mut shard, print, cost, step, now));
        drop(shard);
        one.or_else(|| self.shared.one(&self.room, &self.budget, cost, step.beyond(cost), reading))
            .unwrap_or_else(|| self.later.one(print, cost, step, reading))
    }

    fn shared(&self, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let one = self.shared.one(&self.room, &self.budget, cost, step, reading);
        one.unwrap_or_else(|| self.later.shared(cost, step, reading))
    }

    fn hold(&self, parts: &[Part], now: Timestamp) -> Option<Box<dyn Hold + '_>> {
        self.hold_shards(parts, now)
    }

    fn touch(&self, _print: Fingerprint) -> u64 {
        0
    }

    fn forget(&self, print: Fingerprint) {
        let mut shard = self.lock(Self::shard_of(print));
        if shard.is_closed() {
            drop(shard);
            return self.later.forget(print);
        }
        shard.forget(print, &self.budget);
    }

    fn tidy(&self, now: Timestamp) {
        let mut left = LOOKED_AT_WHEN_FULL;
        for _ in 0..SHARDS {
            let number = self.next_swept.fetch_add(1, Relaxed) % SHARDS;
            if let Ok(mut shard) = self.shards[number].try_lock() {
                let looked_at = left.min(shard.turns());
                shard.sweep(&self.room, &self.budget, looked_at, now);
                left -= looked_at;
            }
            if left == 0 {
                break;
            }
        }
    }

    fn keys(&self) -> usize {
        if self.later.has_begun() { self.later.keys() } else { self.budget.keys() }
    }

    fn ahead(&self, print: Fingerprint, reading: Reading<'_>) -> Box<dyn Ahead> {
        let shard = self.lock(Self::shard_of(print));
        if shard.is_closed() {
            drop(shard);
            return self.later.ahead(print, reading);
        }
        let slot = shard.get(print).and_then(|kept| kept.slot.clone());
        drop(shard);
        ahead(&self.room, slot, reading.anew())
    }

    fn close(&self) -> Box<dyn Legacy + '_> {
        let shards = (0..SHARDS).map(|number| self.lock(number).close());
        Box::new(Estate {
            room: &self.room,
            limiters: shards.flatten().collect(),
            shared: self.shared.close(),
            budget: &self.budget,
        })
    }
}
