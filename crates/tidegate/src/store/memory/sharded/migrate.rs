//! The migration of limiters in shards from a table into its successor.

use tidegate_core::{Rule, Timestamp};

use super::shard::Shard;
use super::{SHARDS, Sharded};
use crate::key::Fingerprint;
use crate::store::memory::entry::Entry;
use crate::store::memory::leaving::Leaving;
use crate::store::memory::succession::Succession;
use crate::store::memory::table::Migrate;

impl<E: Entry> Sharded<E> {
    /// Moves a limiter to its locked shard, unless that was done.
    #[cold]
    pub(super) fn move_in(&self, shard: &mut Shard<E>, fingerprint: Fingerprint) {
        if shard.get(fingerprint).is_some() {
            return;
        }
        let Some(left) = self.succession.take(|old| old.take_out(fingerprint)) else { return };
        let Succession { rule, at, .. } = &self.succession;
        match E::adopt(&self.rules, left, rule, *at) {
            None => self.budget.release(1),
            Some(entry) => shard.insert(fingerprint, entry, &self.rules, &self.budget, 0),
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
        shard.take(fingerprint, &self.budget)?.leave(&self.rules, &self.succession.rule)
    }

    fn take_overflow(&self) -> Option<Box<dyn Leaving>> {
        self.overflow.take(&self.budget)?.leave(&self.rules, &self.succession.rule)
    }

    fn adopt(&self, fingerprint: Fingerprint) {
        self.move_in(&mut self.lock_as_it_is(Self::shard_of(fingerprint)), fingerprint);
    }

    fn adopt_overflow(&self) {
        self.overflow.adopt(&self.rules, &self.budget, &self.succession);
    }

    fn weigh(&self, rule: &Rule, at: Timestamp) -> (usize, usize) {
        let (mut bytes, mut count) = (0_usize, 0);
        for shard in (0..SHARDS).map(|number| self.lock_as_it_is(number)) {
            for (_, entry) in shard.all() {
                count += 1;
                bytes = bytes.saturating_add(entry.bytes_under(&self.rules, rule, at));
            }
        }
        (bytes, count)
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        for number in 0..SHARDS {
            let mut shard = self.lock_as_it_is(number);
            let all = shard.turns();
            shard.sweep(&self.rules, &self.budget, all, now);
        }
        self.budget.keys() == 0 && self.overflow.is_idle(&self.rules, now)
    }
}
