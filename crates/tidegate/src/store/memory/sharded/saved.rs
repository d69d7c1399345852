//! Limiters in shards, in a snapshot.

use std::io;

use tidegate_core::Timestamp;

use super::{SHARDS, Sharded};
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::store::memory::budget::Need;
use crate::store::memory::entry::Entry;
use crate::store::memory::leaving::Leaving;
use crate::store::memory::parameters::bytes_beside_heap;
use crate::store::memory::table::{Restored, Save};

/// The maximum number of limiters that are written under one lock.
const AT_ONCE: usize = 32;
/// Shards that are written in turn: a lock that is taken again immediately would keep out the threads that wait for it.
const BY_TURNS: usize = 8;

impl<E: Entry> Sharded<E> {
    /// Adds the next few limiters of a shard.
    fn save_some(
        &self,
        shard: usize,
        next: &mut impl Iterator<Item = Fingerprint>,
        records: &mut Records<'_, '_>,
    ) {
        let shard = self.lock_as_it_is(shard);
        let mut left = AT_ONCE;
        while left > 0 && !records.are_full() {
            let Some(fingerprint) = next.next() else { break };
            if let Some(entry) = shard.get(fingerprint) {
                entry.save(&self.rules, Some(fingerprint), records);
            }
            left -= 1;
        }
    }
}

impl<E: Entry> Save for Sharded<E> {
    fn save(&self, _clock: &dyn Clock, records: &mut Records<'_, '_>) -> io::Result<()> {
        let shards = if self.shards.get().is_some() { SHARDS } else { 0 };
        for first in (0..shards).step_by(BY_TURNS) {
            let all = |number| (number, self.lock_as_it_is(number).fingerprints().into_iter());
            let mut turns: Vec<_> = (first..first + BY_TURNS).map(all).collect();
            while !turns.is_empty() {
                for (number, next) in &mut turns {
                    self.save_some(*number, next, records);
                    records.write()?;
                }
                turns.retain(|(_, next)| next.len() > 0);
            }
        }
        self.overflow.save(&self.rules, records);
        records.write()
    }

    fn restore(
        &self,
        fingerprint: Option<Fingerprint>,
        left: Box<dyn Leaving>,
        at: Timestamp,
    ) -> Restored {
        let rule = &self.succession.rule;
        let Some(fingerprint) = fingerprint else {
            let is_used = self.overflow.restore(&self.rules, &self.budget, left, rule, at);
            return if is_used { Restored::Kept } else { Restored::Idle };
        };
        let Some(entry) = E::adopt(&self.rules, left, rule, at) else { return Restored::Idle };
        let mut shard = self.lock_as_it_is(Self::shard_of(fingerprint));
        if shard.get(fingerprint).is_some() {
            shard.forget(fingerprint, &self.budget);
        }
        let bytes = bytes_beside_heap::<E>().saturating_add(entry.bytes(&self.rules));
        // It has grown already, so the bytes that are kept for growth are for it.
        let need = Need { first: bytes, next: 0 };
        if !self.budget.claim_with_memory(need) && !self.find_space(&mut shard, need, true, at) {
            return match entry.is_idle(&self.rules, at) {
                true => Restored::Idle,
                false => Restored::WithoutSpace,
            };
        }
        shard.insert(fingerprint, entry, &self.rules, &self.budget, bytes);
        Restored::Kept
    }
}
