//! Sharded entries locked for a step over several.

use std::sync::MutexGuard;

use tidegate_core::Timestamp;

use super::Sharded;
use super::shard::Shard;
use crate::inline_list::InlineList;
use crate::key::Fingerprint;
use crate::step::{One, Step};
use crate::store::memory::entry::Entry;
use crate::store::memory::locked::{LockedEntries, LockedEntry, Standing};
use crate::store::memory::succession::Moved;
use crate::store::memory::table::{LockedLimiters, Part};

type Locked<'a, E> = (usize, MutexGuard<'a, Shard<E>>);

/// Limiters of one table, their shards locked.
#[derive(Debug)]
struct LockedShards<'a, E: Entry> {
    table: &'a Sharded<E>,
    shards: InlineList<Locked<'a, E>>,
    locked: LockedEntries<'a, E>,
}

impl<E: Entry> Sharded<E> {
    /// Locks the shards of all parts, in the order of their numbers, and takes their limiters.
    pub(super) fn lock_shards<'a>(
        &'a self,
        parts: &[Part<'a>],
        now: Timestamp,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved> {
        let mut numbers: InlineList<_> =
            parts.iter().map(|part| Self::shard_of(part.fingerprint)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut shards: InlineList<_> =
            numbers.iter().map(|number| (*number, self.lock_as_it_is(*number))).collect();
        for part in parts {
            if self.common.succession.check(part.generation)?
                && let Some(shard) = shard_among(&mut shards, part.fingerprint)
            {
                self.move_in(shard, part.fingerprint);
            }
        }
        let entry = |part: &Part<'a>| match shard_among(&mut shards, part.fingerprint) {
            Some(shard) => self.lock_entry(shard, *part, now),
            None => LockedEntry::without(*part, Standing::NoSpace),
        };
        let locked = LockedEntries::new(parts.iter().map(entry).collect());
        let mut held = Box::new(LockedShards { table: self, shards, locked });
        match held.locked.lock_overflow(&self.common, now) {
            Ok(()) => Ok(held),
            Err(Moved) => {
                held.release(now);
                Err(Moved)
            }
        }
    }

    /// Takes a limiter out of its locked shard, or makes a new one, with the memory that the step needs.
    pub(super) fn lock_entry<'a>(
        &self,
        shard: &mut Shard<E>,
        part: Part<'a>,
        now: Timestamp,
    ) -> LockedEntry<'a, E> {
        if E::is_unlimited(&part) {
            return LockedEntry::without(part, Standing::Unlimited);
        }
        let locked = self.lock_kept(shard, part, now).or_else(|| self.lock_new(shard, part, now));
        locked.unwrap_or_else(|| LockedEntry::without(part, Standing::Unlimited))
    }

    /// Locks a limiter that is not in its shard; `None` if its rule is unlimited.
    fn lock_new<'a>(
        &self,
        shard: &mut Shard<E>,
        part: Part<'a>,
        now: Timestamp,
    ) -> Option<LockedEntry<'a, E>> {
        let entry = E::new(&part, &mut shard.recent, now)?;
        let (need, stays) = (self.need(&entry), part.step.begins(part.cost));
        Some(match self.find_space(shard, need, stays, now) {
            true if stays => LockedEntry::new(part, Standing::Claimed, entry, need.first),
            true => LockedEntry::new(part, Standing::Absent, entry, 0),
            false => {
                let never = E::never(&part, now);
                LockedEntry::without(part, never.map_or(Standing::NoSpace, Standing::Refused))
            }
        })
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
        let wanted = match is_under {
            true => self.growth(&entry, &part),
            false => self.wanted_under(kept.bytes, &part, recent),
        };
        if self.after_sweeps(shard, now, || self.common.budget.claim_bytes(wanted)) {
            return Some(LockedEntry::new(part, Standing::There, entry, wanted));
        }
        if is_under && !entry.is_idle(&self.common.rules, now) {
            return Some(LockedEntry::new(part, Standing::Full, entry, 0));
        }
        if is_under {
            shard.forget(part.fingerprint, &self.common.budget);
            return None;
        }
        if let Some((kept, _)) = shard.get_mut(part.fingerprint) {
            kept.entry = Some(entry);
        }
        Some(LockedEntry::without(
            part,
            Standing::Refused(E::refusal(&self.common.rules, &part, false)),
        ))
    }

    /// Bytes that a limiter with `bytes` needs in addition for a step under another rule.
    fn wanted_under(&self, bytes: usize, part: &Part<'_>, recent: &mut E::Recent) -> usize {
        let entry =
            E::new(part, recent, Timestamp::EPOCH).filter(|_| part.step.changes_rule(part.cost));
        let Some(entry) = entry else { return 0 };
        self.need(&entry).first.saturating_sub(bytes) + self.growth(&entry, part)
    }

    /// Prepares a limiter for a step at this time.
    pub(super) fn begin(shard: &mut Shard<E>, locked: &mut LockedEntry<'_, E>, at: Timestamp) {
        if let Some(entry) = &mut locked.entry {
            locked.change = entry.begin(&locked.part, &mut shard.recent, at);
        }
    }

    /// Runs a step on a limiter. If it does not decide, it gets back what the step gives back.
    pub(super) fn run(
        &self,
        shard: &mut Shard<E>,
        locked: &mut LockedEntry<'_, E>,
        shared: Option<&mut E>,
        step: Step,
        at: Timestamp,
    ) -> One {
        let is_unlimited = matches!(locked.standing, Standing::Unlimited);
        let part = Part { step, ..locked.part };
        if (is_unlimited || matches!(locked.standing, Standing::Refused(_)))
            && let Some(step) = part.unconditional_step(is_unlimited)
            && let Some((kept, _)) = shard.get_mut(part.fingerprint)
            && let Some(entry) = &mut kept.entry
        {
            let one = entry.run_in_place(&self.common.rules, step, part.cost, at);
            kept.weigh(&self.common, 0);
            if let Some(one) = one.filter(|_| !is_unlimited) {
                return one;
            }
        }
        locked.run(&self.common.rules, shared, step, at)
    }

    /// Puts a limiter back as the step left it, and drops it if it was reset.
    pub(super) fn put_back(
        &self,
        shard: &mut Shard<E>,
        locked: &mut LockedEntry<'_, E>,
        at: Timestamp,
    ) {
        let Part { fingerprint, step, .. } = locked.part;
        let entry = locked.end();
        match locked.standing {
            Standing::There | Standing::Full => {
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
            _ => {}
        }
        self.drop_if_reset(shard, fingerprint, step, at);
    }
}

fn shard_among<'s, E: Entry>(
    shards: &'s mut [Locked<'_, E>],
    fingerprint: Fingerprint,
) -> Option<&'s mut Shard<E>> {
    let number = Sharded::<E>::shard_of(fingerprint);
    shards.iter_mut().find(|(of, _)| *of == number).map(|(_, shard)| &mut **shard)
}

impl<E: Entry> LockedLimiters for LockedShards<'_, E> {
    fn begin(&mut self, at: Timestamp) {
        for locked in &mut self.locked.entries {
            if let Some(shard) = shard_among(&mut self.shards, locked.part.fingerprint) {
                Sharded::begin(shard, locked, at);
            }
        }
    }

    fn run(&mut self, number: usize, step: Step, at: Timestamp) -> One {
        let (locked, shared) = self.locked.entry(number);
        match shard_among(&mut self.shards, locked.part.fingerprint) {
            Some(shard) => self.table.run(shard, locked, shared, step, at),
            None => locked.run(&self.table.common.rules, shared, step, at),
        }
    }

    fn release(mut self: Box<Self>, at: Timestamp) {
        self.locked.release_overflow(&self.table.common);
        for locked in &mut self.locked.entries {
            if let Some(shard) = shard_among(&mut self.shards, locked.part.fingerprint) {
                self.table.put_back(shard, locked, at);
            }
        }
    }
}
