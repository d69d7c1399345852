//! The shards of entries as the home of a table: it takes limiters out for a step over several, and puts them back.

use std::sync::MutexGuard;

use tidegate_core::{Timestamp, Verdict};

use super::shard::Shard;
use super::{SHARDS, Sharded};
use crate::key::Fingerprint;
use crate::step::Step;
use crate::store::memory::budget::Need;
use crate::store::memory::common::Common;
use crate::store::memory::entry::{Entry, LockedEntry, Standing, TableRules as _};
use crate::store::memory::home::Home;
use crate::store::memory::parameters::bytes_beside_heap;
use crate::store::memory::table::{Part, Restored};

impl<E: Entry> Sharded<E> {
    /// Locks a limiter that is not in its shard.
    fn lock_new<'a>(
        &self,
        shard: &mut Shard<E>,
        part: Part<'a>,
        now: Timestamp,
    ) -> LockedEntry<'a, E> {
        // A key without a limit has no limiter.
        let Some(mut entry) = E::new(&part, &mut shard.recent, now) else {
            return LockedEntry::without(part, Standing::Absent);
        };
        let need = self.need(&entry);
        let stays = part.step.begins(part.cost);
        if self.find_space(shard, need, stays, now) {
            let standing = if stays { Standing::Claimed } else { Standing::Absent };
            return LockedEntry::new(part, standing, entry, if stays { need.first } else { 0 });
        }
        if part.rule.is_some() && !part.step.is_unconditional() {
            // A cost that the key's own rule never admits is not admitted by the overflow limiter either.
            let one = entry.run(&self.common.rules, Step::Peek, part.cost, now, false);
            if one.verdict == Verdict::Never {
                return LockedEntry::without(part, Standing::Refused(one.decided.decision));
            }
        }
        LockedEntry::without(part, Standing::NoSpace)
    }

    /// Takes a limiter out of its shard; `None` if it is not there, or was dropped for lack of memory.
    fn lock_kept<'a>(
        &self,
        shard: &mut Shard<E>,
        part: Part<'a>,
        now: Timestamp,
    ) -> Option<LockedEntry<'a, E>> {
        let (kept, recent) = shard.get_mut(part.fingerprint)?;
        // The entry is taken out first, or the search for room could drop it.
        let entry = kept.entry.take()?;
        let is_under = entry.is_under(&part);
        let wanted = if is_under {
            self.growth(&entry, &part)
        } else {
            self.wanted_under(kept.bytes, &part, recent)
        };
        if self.after_sweeps(shard, now, || self.common.budget.claim_bytes(wanted)) {
            return Some(LockedEntry::new(part, Standing::There, entry, wanted));
        }
        // It still decides. New units are kept more coarsely, in the memory that it has.
        if is_under && !entry.is_idle(&self.common.rules, now) {
            return Some(LockedEntry::new(part, Standing::Full, entry, 0));
        }
        if is_under {
            shard.forget(part.fingerprint, &self.common.budget);
            return None;
        }
        // Its own rule would need more memory: it stays under the rule that it has, and the key is refused.
        let refusal = self.common.rules.refusal(&part, false);
        Some(LockedEntry::new(part, Standing::Refused(refusal), entry, 0))
    }

    /// Bytes that a limiter with `bytes` needs in addition for a step under another rule.
    fn wanted_under(&self, bytes: usize, part: &Part<'_>, recent: &mut E::Recent) -> usize {
        // At any time, because only the size of the entry is of interest.
        let entry =
            E::new(part, recent, Timestamp::EPOCH).filter(|_| part.step.changes_rule(part.cost));
        let Some(entry) = entry else { return 0 };
        self.need(&entry).first.saturating_sub(bytes) + self.growth(&entry, part)
    }
}

impl<E: Entry> Home for Sharded<E> {
    type Entry = E;
    type Locked<'a> = MutexGuard<'a, Shard<E>>;

    fn common(&self) -> &Common<E> {
        &self.common
    }

    fn number_of(&self, fingerprint: Fingerprint) -> u32 {
        Self::shard_of(fingerprint)
    }

    fn lock_number(&self, number: u32) -> Option<Self::Locked<'_>> {
        (number < SHARDS).then(|| self.lock_shard(number))
    }

    fn may_have_limiters(&self, number: u32) -> bool {
        // Past the last part too, which is found by locking it.
        number >= SHARDS || self.shard(number as usize).is_some()
    }

    fn look<O>(
        &self,
        shard: &Self::Locked<'_>,
        fingerprint: Fingerprint,
        look: impl FnOnce(&E) -> O,
    ) -> Option<O> {
        shard.get(fingerprint).map(look)
    }

    fn look_at_all(&self, shard: &Self::Locked<'_>, mut look: impl FnMut(Fingerprint, &E)) {
        shard.all().for_each(|(fingerprint, entry)| look(fingerprint, entry));
    }

    fn put(
        &self,
        shard: &mut Self::Locked<'_>,
        fingerprint: Fingerprint,
        entry: E,
        restored: Option<Timestamp>,
    ) -> Restored {
        let mut claimed = 0;
        if let Some(at) = restored {
            // A snapshot may have a limiter twice, and the later state is the newer state.
            if shard.get(fingerprint).is_some() {
                shard.forget(fingerprint, &self.common.budget);
            }
            claimed = bytes_beside_heap::<E>().saturating_add(entry.bytes(&self.common.rules));
            // It has grown already, so the bytes that are kept for growth are for it.
            let need = Need { first: claimed, next: 0 };
            // A limiter with room stays even if it is idle: the clock may step back.
            if !self.common.budget.claim_with_memory(need)
                && !self.find_space(shard, need, true, at)
            {
                let is_idle = entry.is_idle(&self.common.rules, at);
                return if is_idle { Restored::Idle } else { Restored::WithoutSpace };
            }
        }
        shard.insert(fingerprint, entry, &self.common, claimed);
        Restored::Kept
    }

    fn take(&self, shard: &mut Self::Locked<'_>, fingerprint: Fingerprint) -> Option<E> {
        shard.take(fingerprint, &self.common.budget)
    }

    fn sweep_all(&self, shard: &mut Self::Locked<'_>, now: Timestamp) {
        let all = shard.turns();
        shard.sweep(&self.common, all, now);
    }

    fn lock_entry<'a>(
        &self,
        shard: &mut Self::Locked<'_>,
        part: Part<'a>,
        now: Timestamp,
    ) -> LockedEntry<'a, E> {
        self.lock_kept(shard, part, now).unwrap_or_else(|| self.lock_new(shard, part, now))
    }

    fn begin(&self, shard: &mut Self::Locked<'_>, locked: &mut LockedEntry<'_, E>, at: Timestamp) {
        let decides = !matches!(locked.standing, Standing::Refused(_));
        if let Some(entry) = locked.entry.as_mut().filter(|_| decides) {
            locked.change = entry.begin(&locked.part, &mut shard.recent, at);
        }
    }

    /// Puts a limiter back as the step left it, and drops it if it was reset.
    fn put_back(
        &self,
        shard: &mut Self::Locked<'_>,
        locked: &mut LockedEntry<'_, E>,
        at: Timestamp,
    ) {
        let Part { fingerprint, step, .. } = locked.part;
        let entry = locked.end();
        match locked.standing {
            Standing::There | Standing::Full | Standing::Refused(_) => {
                // It is there: a sweep leaves an entry alone that a step has taken out.
                if let Some((kept, _)) = shard.get_mut(fingerprint) {
                    kept.entry = entry;
                    kept.weigh(&self.common, locked.claimed);
                }
            }
            Standing::Claimed => {
                entry.into_iter().for_each(|entry| {
                    self.add(shard, fingerprint, entry, locked.claimed, at);
                });
            }
            // It was only looked at, or has no place.
            _ => {}
        }
        self.drop_if_reset(shard, fingerprint, step, at);
    }
}
