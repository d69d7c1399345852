//! A part of a table's limiters, under one lock.
//!
//! A `Sharded` table has 64, in groups that are made when they are needed. Next to the map a shard has the order in which
//! limiters are looked at when idle limiters are searched.

use std::collections::hash_map::Entry::Occupied;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use tidegate_core::Timestamp;

use crate::key::{Fingerprint, Hashed};
use crate::store::memory::budget::Budget;
use crate::store::memory::common::Common;
use crate::store::memory::entry::Entry;
use crate::store::memory::parameters::bytes_beside_heap;

/// A part of a table's limiters, and all of their fingerprints in the order of sweeping.
#[derive(Debug)]
pub(in crate::store::memory) struct Shard<E: Entry> {
    limiters: HashMap<Fingerprint, Kept<E>, BuildHasherDefault<Hashed>>,
    turns: VecDeque<Fingerprint>,
    pub(super) recent: E::Recent,
}

/// A limiter, and the bytes that are counted for it.
#[derive(Debug)]
pub(super) struct Kept<E> {
    /// `None` only while a step over several limiters has taken it.
    pub(super) entry: Option<E>,
    pub(super) bytes: usize,
}

impl<E: Entry> Kept<E> {
    /// Counts the bytes it takes now; `claimed` more than before are counted already. Any step may change them, even if
    /// it looks or is refused, because the state remembers a clock that steps back. If they stay the same, nothing that
    /// threads share is written.
    pub(super) fn weigh(&mut self, common: &Common<E>, claimed: usize) {
        let heap = self.entry.as_ref().map_or(0, |entry| entry.bytes(&common.rules));
        let bytes = bytes_beside_heap::<E>().saturating_add(heap);
        common.budget.resize(self.bytes + claimed, bytes);
        self.bytes = bytes;
    }

    /// Drops it, and then uncounts its place and its bytes.
    fn uncount(self, budget: &Budget) {
        let Self { entry, bytes } = self;
        drop(entry);
        budget.resize(bytes, 0);
        budget.release(1);
    }
}

impl<E: Entry> Default for Shard<E> {
    fn default() -> Self {
        Self { limiters: HashMap::default(), turns: VecDeque::new(), recent: E::Recent::default() }
    }
}

impl<E: Entry> Shard<E> {
    pub(super) fn get(&self, fingerprint: Fingerprint) -> Option<&E> {
        self.limiters.get(&fingerprint)?.entry.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(
        &mut self,
        fingerprint: Fingerprint,
    ) -> Option<(&mut Kept<E>, &mut E::Recent)> {
        Some((self.limiters.get_mut(&fingerprint)?, &mut self.recent))
    }

    /// The number of limiters in the order of sweeping.
    pub(super) fn turns(&self) -> usize {
        self.turns.len()
    }

    /// Adds a limiter with `claimed` bytes.
    pub(super) fn insert(
        &mut self,
        fingerprint: Fingerprint,
        entry: E,
        common: &Common<E>,
        claimed: usize,
    ) {
        let mut kept = Kept { entry: Some(entry), bytes: 0 };
        kept.weigh(common, claimed);
        match self.limiters.insert(fingerprint, kept) {
            None => self.turns.push_back(fingerprint),
            // A panic in a step over several limiters left its entry empty.
            Some(kept) => kept.uncount(&common.budget),
        }
    }

    /// Drops a limiter and its turn in the order of sweeping.
    pub(super) fn forget(&mut self, fingerprint: Fingerprint, budget: &Budget) {
        self.remove(fingerprint, budget);
        // Else the key would have two turns when it comes again, and one more with every reset.
        self.turns.retain(|turn| *turn != fingerprint);
    }

    /// Drops a limiter, and uncounts its bytes.
    fn remove(&mut self, fingerprint: Fingerprint, budget: &Budget) {
        if let Some(kept) = self.limiters.remove(&fingerprint) {
            kept.uncount(budget);
        }
    }

    /// Looks at the next few limiters and drops idle limiters.
    pub(super) fn sweep(&mut self, common: &Common<E>, looked_at: usize, now: Timestamp) {
        let mut dropped = 0;
        for _ in 0..looked_at.min(self.turns.len()) {
            let Some(fingerprint) = self.turns.pop_front() else { break };
            let Occupied(kept) = self.limiters.entry(fingerprint) else { continue };
            // An empty entry is put back by the step that took it.
            if kept.get().entry.as_ref().is_some_and(|entry| entry.is_idle(&common.rules, now)) {
                let Kept { entry, bytes } = kept.remove();
                drop(entry);
                common.budget.resize(bytes, 0);
                dropped += 1;
            } else {
                self.turns.push_back(fingerprint);
            }
        }
        common.budget.release_idle(dropped);
    }

    /// Takes a limiter out, whose place stays claimed.
    pub(super) fn take(&mut self, fingerprint: Fingerprint, budget: &Budget) -> Option<E> {
        let Kept { entry, bytes } = self.limiters.remove(&fingerprint)?;
        budget.resize(bytes, 0);
        entry
    }

    /// The limiters there are.
    pub(super) fn all(&self) -> impl Iterator<Item = (Fingerprint, &E)> {
        let all = self.limiters.iter();
        all.filter_map(|(fingerprint, kept)| Some((*fingerprint, kept.entry.as_ref()?)))
    }
}
