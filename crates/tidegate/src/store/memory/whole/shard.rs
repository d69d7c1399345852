//! Some of a table's whole states, under one lock.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use tidegate_core::{Room, Timestamp};

use crate::key::Fingerprint;
use crate::store::memory::budget::Budget;
use crate::store::memory::heap::heap_bytes;
use crate::store::memory::shards::Spread;

/// Some of a table's limiters, and all of their fingerprints in the order they are looked at.
#[derive(Debug)]
pub(super) struct Shard<R: Room> {
    states: HashMap<Fingerprint, Kept<R>, BuildHasherDefault<Spread>>,
    turns: VecDeque<Fingerprint>,
    /// For good: what is asked of it is asked of what follows the table.
    closed: bool,
}

/// A state, unless it is in somebody's hand, and the bytes that are accounted for it.
#[derive(Debug)]
pub(super) struct Kept<R: Room> {
    /// Empty only while in the hand of a step over several limiters.
    pub(super) slot: Option<R::State>,
    bytes: usize,
}

impl<R: Room> Kept<R> {
    /// What a limiter takes in the map and the queue, growth included, without its heap.
    pub(super) const BYTES_BESIDE_HEAP: usize =
        3 * (size_of::<(Fingerprint, Self)>() + size_of::<Fingerprint>());

    /// Accounts for what the state takes now; `claimed` bytes more than it had are counted already.
    pub(super) fn weigh(&mut self, room: &R, budget: &Budget, claimed: usize) {
        let heap = self.slot.as_ref().map_or(0, |state| heap_bytes(room, state));
        let bytes = Self::BYTES_BESIDE_HEAP.saturating_add(heap);
        budget.resize(self.bytes + claimed, bytes);
        self.bytes = bytes;
    }
}

impl<R: Room> Default for Shard<R> {
    fn default() -> Self {
        Self { states: HashMap::default(), turns: VecDeque::new(), closed: false }
    }
}

impl<R: Room> Shard<R> {
    pub(super) fn get(&self, print: Fingerprint) -> Option<&Kept<R>> {
        self.states.get(&print)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, print: Fingerprint) -> Option<&mut Kept<R>> {
        self.states.get_mut(&print)
    }

    /// Limiters that have a turn to be looked at.
    pub(super) fn turns(&self) -> usize {
        self.turns.len()
    }

    /// Adds a limiter, for which so many bytes are claimed.
    pub(super) fn insert(
        &mut self,
        print: Fingerprint,
        state: R::State,
        room: &R,
        budget: &Budget,
        claimed: usize,
    ) {
        let mut kept = Kept { slot: Some(state), bytes: 0 };
        kept.weigh(room, budget, claimed);
        self.states.insert(print, kept);
        self.turns.push_back(print);
    }

    /// Drops a limiter and its turn.
    pub(super) fn forget(&mut self, print: Fingerprint, budget: &Budget) {
        self.remove(print, budget);
        // Or its next life would have two turns, and one that is reset often ever more.
        self.turns.retain(|turn| *turn != print);
    }

    /// Drops a limiter, and then what was accounted for it.
    fn remove(&mut self, print: Fingerprint, budget: &Budget) {
        if let Some(Kept { slot, bytes }) = self.states.remove(&print) {
            drop(slot);
            budget.resize(bytes, 0);
            budget.release(1);
        }
    }

    /// Looks at the next few limiters and drops those that are as good as new.
    pub(super) fn sweep(&mut self, room: &R, budget: &Budget, looked_at: usize, now: Timestamp) {
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

    /// Whether it was closed.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Closes it for good; answers all that was in it.
    pub(super) fn close(&mut self) -> impl Iterator<Item = (Fingerprint, R::State)> + use<R> {
        let Self { states, .. } = std::mem::replace(self, Self { closed: true, ..Self::default() });
        states.into_iter().filter_map(|(print, kept)| Some((print, kept.slot?)))
    }
}
