//! The migration of limiters in shards from a table into its successor, and out of and into snapshots.

use std::io;

use tidegate_core::{Rule, Timestamp};

use super::shard::Shard;
use super::{SHARDS, Sharded};
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::store::memory::budget::Need;
use crate::store::memory::entry::Entry;
use crate::store::memory::leaving::Leaving;
use crate::store::memory::parameters::bytes_beside_heap;
use crate::store::memory::table::{Migrate, Restored};

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
                entry.save(&self.common.rules, Some(fingerprint), records);
            }
            left -= 1;
        }
    }

    /// Moves a limiter to its locked shard, unless that was done.
    #[cold]
    pub(super) fn move_in(&self, shard: &mut Shard<E>, fingerprint: Fingerprint) {
        if shard.get(fingerprint).is_some() {
            return;
        }
        let Some(left) = self.common.succession.take(|old| old.take_out(fingerprint)) else {
            return;
        };
        match self.common.adopted(left, self.common.succession.at) {
            None => self.common.budget.release(1),
            Some(entry) => shard.insert(fingerprint, entry, &self.common, 0),
        }
    }
}

impl<E: Entry> Migrate for Sharded<E> {
    fn fingerprints(&self, part: usize) -> Option<Vec<Fingerprint>> {
        let shard = (part < SHARDS).then(|| self.lock_as_it_is(part))?;
        Some(shard.all().map(|(fingerprint, _)| fingerprint).collect())
    }

    fn take_out(&self, fingerprint: Fingerprint) -> Option<Box<dyn Leaving>> {
        let mut shard = self.lock_as_it_is(Self::shard_of(fingerprint));
        self.common.leaving(shard.take(fingerprint, &self.common.budget)?)
    }

    fn adopt(&self, fingerprint: Fingerprint) {
        self.move_in(&mut self.lock_as_it_is(Self::shard_of(fingerprint)), fingerprint);
    }

    fn weigh(&self, rule: &Rule, at: Timestamp) -> (usize, usize) {
        let (mut bytes, mut count) = (0_usize, 0);
        for shard in (0..SHARDS).map(|number| self.lock_as_it_is(number)) {
            for (_, entry) in shard.all() {
                count += 1;
                bytes = bytes.saturating_add(entry.bytes_under(&self.common.rules, rule, at));
            }
        }
        (bytes, count)
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        for number in 0..SHARDS {
            let mut shard = self.lock_as_it_is(number);
            let all = shard.turns();
            shard.sweep(&self.common, all, now);
        }
        self.common.budget.keys() == 0 && self.common.is_overflow_idle(now)
    }

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
        self.common.save_overflow(records);
        records.write()
    }

    fn restore(
        &self,
        fingerprint: Option<Fingerprint>,
        left: Box<dyn Leaving>,
        at: Timestamp,
    ) -> Restored {
        let Some(fingerprint) = fingerprint else {
            return self.common.restore_overflow(left, at);
        };
        let Some(entry) = self.common.adopted(left, at) else { return Restored::Idle };
        let mut shard = self.lock_as_it_is(Self::shard_of(fingerprint));
        if shard.get(fingerprint).is_some() {
            shard.forget(fingerprint, &self.common.budget);
        }
        let bytes = bytes_beside_heap::<E>().saturating_add(entry.bytes(&self.common.rules));
        // It has grown already, so the bytes that are kept for growth are for it.
        let need = Need { first: bytes, next: 0 };
        if !self.common.budget.claim_with_memory(need)
            && !self.find_space(&mut shard, need, true, at)
        {
            return match entry.is_idle(&self.common.rules, at) {
                true => Restored::Idle,
                false => Restored::WithoutSpace,
            };
        }
        shard.insert(fingerprint, entry, &self.common, bytes);
        Restored::Kept
    }
}
