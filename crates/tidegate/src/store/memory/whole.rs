//! Limiters whose states do not fit a word: in shards, each behind a lock that is held shortly.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Room, Timestamp};

use super::budget::Budget;
use super::hands::{self, Hand, Shared, Standing};
use super::sync::{AtomicUsize, Ordering::Relaxed};
use super::table::{Hold, Holding, OnFull, One, Part, Step, Table};
use crate::clock::Reading;
use crate::key::Fingerprint;

const SHARDS: usize = 64;
/// Limiters looked at, whether they can go, whenever one is added.
const LOOKED_AT_PER_ADDED: usize = 2;
/// The same when there is no room for one.
const LOOKED_AT_WHEN_FULL: usize = 32;

/// A table of whole states.
#[derive(Debug)]
pub(super) struct Whole<R: Room> {
    room: R,
    shards: Box<[Mutex<Shard<R>>]>,
    budget: Arc<Budget>,
    shared: Shared<R>,
    /// The shard that is looked through next when there is no room.
    next_swept: AtomicUsize,
}

/// Some of a table's limiters, and all of their fingerprints in the order they are looked at.
#[derive(Debug)]
struct Shard<R: Room> {
    /// Empty only while in the hand of a step over several limiters.
    states: HashMap<Fingerprint, Kept<R>, BuildHasherDefault<Spread>>,
    turns: VecDeque<Fingerprint>,
}

/// A state, unless it is in somebody's hand, and the bytes that are accounted for it.
#[derive(Debug)]
struct Kept<R: Room> {
    slot: Option<R::State>,
    bytes: usize,
}

impl<R: Room> Kept<R> {
    /// What a limiter takes in the map and the queue, growth included, without its heap.
    const BYTES_BESIDE_HEAP: usize =
        3 * (size_of::<(Fingerprint, Self)>() + size_of::<Fingerprint>());

    /// Accounts for what the state takes now.
    fn weigh(&mut self, room: &R, budget: &Budget) {
        let heap = self.slot.as_ref().map_or(0, |state| room.heap_bytes(state));
        let bytes = Self::BYTES_BESIDE_HEAP + usize::try_from(heap).unwrap_or(usize::MAX / 2);
        budget.resize(self.bytes, bytes);
        self.bytes = bytes;
    }
}

/// Fingerprints are hashes already.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, print: u128) {
        self.0 = (print >> 32) as u64;
    }
}

impl<R: Room> Default for Shard<R> {
    fn default() -> Self {
        Self { states: HashMap::default(), turns: VecDeque::new() }
    }
}

impl<R: Room> Shard<R> {
    fn insert(&mut self, print: Fingerprint, kept: Kept<R>) {
        self.states.insert(print, kept);
        self.turns.push_back(print);
    }

    /// Drops a limiter, and what was accounted for it.
    fn remove(&mut self, print: Fingerprint, budget: &Budget) {
        if let Some(kept) = self.states.remove(&print) {
            budget.resize(kept.bytes, 0);
            budget.release(1);
        }
    }

    /// Looks at the next few limiters and drops those that are as good as new.
    fn sweep(&mut self, room: &R, budget: &Budget, looked_at: usize, now: Timestamp) {
        for _ in 0..looked_at.min(self.turns.len()) {
            let Some(print) = self.turns.pop_front() else { break };
            let Some(kept) = self.states.get(&print) else { continue };
            // One that is empty is in somebody's hand, who puts it back.
            if kept.slot.as_ref().is_some_and(|state| room.is_as_good_as_new(state, now)) {
                self.remove(print, budget);
            } else {
                self.turns.push_back(print);
            }
        }
    }
}

impl<R: Room> Whole<R> {
    pub(super) fn new(room: R, budget: Arc<Budget>, on_full: OnFull) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { room, shards, budget, shared: Shared::new(on_full), next_swept: AtomicUsize::new(0) }
    }

    fn shard_of(print: Fingerprint) -> usize {
        print.words()[0] as usize % SHARDS
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard<R>> {
        // A panic inside a step leaves a shard as it was before or after, never between.
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims a place for one more limiter in a locked shard, after a look for some that can go.
    fn claim(&self, shard: &mut Shard<R>, now: Timestamp) -> bool {
        shard.sweep(&self.room, &self.budget, LOOKED_AT_PER_ADDED, now);
        self.budget.claim_with_memory()
            || {
                shard.sweep(&self.room, &self.budget, LOOKED_AT_WHEN_FULL, now);
                self.budget.claim_with_memory()
            }
            || {
                self.tidy(now);
                self.budget.claim_with_memory()
            }
    }

    /// Puts a limiter whose place is claimed into its shard, or forgets it if it is as good as new.
    fn add(&self, shard: &mut Shard<R>, print: Fingerprint, slot: Option<R::State>, at: Timestamp) {
        match slot.filter(|state| !self.room.is_as_good_as_new(state, at)) {
            Some(state) => {
                let mut kept = Kept { slot: Some(state), bytes: 0 };
                kept.weigh(&self.room, &self.budget);
                shard.insert(print, kept);
            }
            None => self.budget.release(1),
        }
    }
}

impl<R: Room> Table for Whole<R> {
    fn admits(&self, print: Fingerprint, cost: u64, reading: Reading<'_>) -> bool {
        self.one(print, cost, Step::Decide, reading).verdict.is_allowed()
    }

    fn one(&self, print: Fingerprint, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let mut shard = self.lock(Self::shard_of(print));
        let now = reading.anew();
        if let Some(kept) = shard.states.get_mut(&print) {
            let (one, changed) = step.run(&self.room, &mut kept.slot, cost, now);
            if changed {
                kept.weigh(&self.room, &self.budget);
            }
            one
        } else if !step.begins() {
            step.run(&self.room, &mut None, cost, now).0
        } else if self.claim(&mut shard, now) {
            let mut slot = None;
            let (one, _) = step.run(&self.room, &mut slot, cost, now);
            self.add(&mut shard, print, slot, now);
            one
        } else {
            drop(shard);
            self.shared.one(&self.room, cost, step, reading)
        }
    }

    fn hold(&self, parts: &[Part], step: Step, now: Timestamp) -> Box<dyn Hold + '_> {
        let mut numbers: Vec<_> = parts.iter().map(|part| Self::shard_of(part.print)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut shards: Vec<_> =
            numbers.iter().map(|number| (*number, self.lock(*number))).collect();
        let hands: Vec<_> =
            parts.iter().map(|part| self.take_in_hand(&mut shards, *part, step, now)).collect();
        let beyond = hands.iter().any(|hand| hand.standing == Standing::Beyond);
        let shared = if beyond { self.shared.lock() } else { None };
        Box::new(HeldShards { table: self, shards, hands, shared })
    }

    fn touch(&self, _print: Fingerprint) -> u64 {
        0
    }

    fn tidy(&self, now: Timestamp) {
        let mut left = LOOKED_AT_WHEN_FULL;
        for _ in 0..SHARDS {
            let number = self.next_swept.fetch_add(1, Relaxed) % SHARDS;
            if let Ok(mut shard) = self.shards[number].try_lock() {
                let looked_at = left.min(shard.turns.len());
                shard.sweep(&self.room, &self.budget, looked_at, now);
                left -= looked_at;
            }
            if left == 0 {
                break;
            }
        }
    }

    fn keys(&self) -> usize {
        self.budget.keys()
    }
}

type Locked<'a, R> = (usize, MutexGuard<'a, Shard<R>>);

/// Limiters of one table in hand, their shards locked.
#[derive(Debug)]
struct HeldShards<'a, R: Room> {
    table: &'a Whole<R>,
    shards: Vec<Locked<'a, R>>,
    hands: Vec<Hand<R>>,
    shared: Option<MutexGuard<'a, Option<R::State>>>,
}

impl<R: Room> Whole<R> {
    fn take_in_hand(
        &self,
        shards: &mut [Locked<'_, R>],
        part: Part,
        step: Step,
        now: Timestamp,
    ) -> Hand<R> {
        let shard = shard_among(shards, part.print);
        let Some(shard) = shard else {
            return Hand { part, slot: None, standing: Standing::Beyond };
        };
        if let Some(kept) = shard.states.get_mut(&part.print) {
            return Hand { part, slot: kept.slot.take(), standing: Standing::There };
        }
        let standing = match step.begins() {
            false => Standing::Absent,
            true if self.claim(shard, now) => Standing::Claimed,
            true => Standing::Beyond,
        };
        Hand { part, slot: None, standing }
    }
}

fn shard_among<'s, R: Room>(
    shards: &'s mut [Locked<'_, R>],
    print: Fingerprint,
) -> Option<&'s mut Shard<R>> {
    let number = Whole::<R>::shard_of(print);
    shards.iter_mut().find(|(of, _)| *of == number).map(|(_, shard)| &mut **shard)
}

impl<R: Room> Hold for HeldShards<'_, R> {
    fn held(&mut self) -> Vec<Holding<'_>> {
        hands::held(&self.table.room, &mut self.hands, self.shared.as_deref_mut())
    }

    fn release(mut self: Box<Self>, at: Timestamp) {
        for hand in &mut self.hands {
            let Some(shard) = shard_among(&mut self.shards, hand.part.print) else { continue };
            match hand.standing {
                Standing::There => {
                    if let Some(kept) = shard.states.get_mut(&hand.part.print) {
                        kept.slot = hand.slot.take();
                        kept.weigh(&self.table.room, &self.table.budget);
                    }
                }
                Standing::Claimed => self.table.add(shard, hand.part.print, hand.slot.take(), at),
                Standing::Absent | Standing::Beyond => {}
            }
        }
    }

    fn forget(mut self: Box<Self>) {
        for hand in self.hands.iter().filter(|hand| hand.standing == Standing::There) {
            if let Some(shard) = shard_among(&mut self.shards, hand.part.print) {
                shard.remove(hand.part.print, &self.table.budget);
                // Or its next life would have two turns, and one that is reset often ever more.
                shard.turns.retain(|turn| *turn != hand.part.print);
            }
        }
    }
}
