//! Sharded entries locked for a step over several.

use std::sync::MutexGuard;

use tidegate_core::Timestamp;

use super::Sharded;
use super::shard::Shard;
use crate::inline_list::{InlineList, StepList};
use crate::key::Fingerprint;
use crate::store::memory::entry::Entry;
use crate::store::memory::locked::{LockedEntries, LockedEntry, Standing};
use crate::store::memory::preset::Preset;
use crate::store::memory::succession::Moved;
use crate::store::memory::table::{LockedLimiter, LockedLimiters, Part};

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
            if self.succession.check(part.generation)?
                && let Some(shard) = shard_among(&mut shards, part.fingerprint)
            {
                self.move_in(shard, part.fingerprint);
            }
        }
        let entry = |part: &Part<'a>| self.lock_entry(&mut shards, *part, now);
        let entries = parts.iter().map(entry).collect();
        let locked = LockedEntries::new(entries);
        let mut held = Box::new(LockedShards { table: self, shards, locked });
        let (overflow, rules, budget) = (&self.overflow, &self.rules, &*self.budget);
        match held.locked.lock_overflow(overflow, rules, budget, &self.succession, now) {
            Ok(()) => Ok(held),
            Err(Moved) => {
                held.release(now);
                Err(Moved)
            }
        }
    }

    fn lock_entry<'a>(
        &self,
        shards: &mut [Locked<'_, E>],
        part: Part<'a>,
        now: Timestamp,
    ) -> LockedEntry<'a, E> {
        let shard = shard_among(shards, part.fingerprint).filter(|_| !E::is_unlimited(&part));
        let locked = shard.and_then(|shard| {
            self.lock_kept(shard, part, now).or_else(|| self.lock_new(shard, part, now))
        });
        let unlimited = || Standing::Preset(Preset::unlimited(part.enforced));
        locked.unwrap_or_else(|| LockedEntry::without(part, unlimited()))
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
            false => LockedEntry::without(part, no_space::<E>(&part, now)),
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
        if self.after_sweeps(shard, now, || self.budget.claim_bytes(wanted)) {
            return Some(LockedEntry::new(part, Standing::There, entry, wanted));
        }
        if is_under && !entry.is_idle(&self.rules, now) {
            return Some(LockedEntry::new(part, Standing::Full, entry, 0));
        }
        if is_under {
            shard.forget(part.fingerprint, &self.budget);
            return None;
        }
        if let Some((kept, _)) = shard.get_mut(part.fingerprint) {
            kept.entry = Some(entry);
        }
        Some(LockedEntry::without(part, Standing::Preset(E::refusal(&self.rules, &part, false))))
    }

    /// Bytes that a limiter with `bytes` needs in addition for a step under another rule.
    fn wanted_under(&self, bytes: usize, part: &Part<'_>, recent: &mut E::Recent) -> usize {
        let entry =
            E::new(part, recent, Timestamp::EPOCH).filter(|_| part.step.changes_rule(part.cost));
        let Some(entry) = entry else { return 0 };
        self.need(&entry).first.saturating_sub(bytes) + self.growth(&entry, part)
    }
}

/// A key for which there is no room.
fn no_space<E: Entry>(part: &Part<'_>, now: Timestamp) -> Standing {
    let Some(never) = E::never(part, now) else { return Standing::NoSpace };
    Standing::Preset(Preset::instead(never.decision, part.enforced))
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
            let part = &locked.part;
            let Some(shard) = shard_among(&mut self.shards, part.fingerprint) else { continue };
            match (&mut locked.standing, &mut locked.entry) {
                (Standing::Preset(preset), _) => {
                    let is_unlimited = E::is_unlimited(part);
                    let Some(step) = part.unconditional_step(is_unlimited) else { continue };
                    let Some((kept, _)) = shard.get_mut(part.fingerprint) else { continue };
                    let one = self.table.give_back(kept, Part { step, ..*part }, at);
                    if let Some(one) = one.filter(|_| !is_unlimited) {
                        (preset.decision, preset.elsewhere) = (one.decision, false);
                    }
                }
                (_, Some(entry)) => locked.change = entry.begin(part, &mut shard.recent, at),
                _ => {}
            }
        }
    }

    fn held<'h>(&'h mut self, held: &mut StepList<LockedLimiter<'h>>) {
        self.locked.held(&self.table.rules, held);
    }

    fn release(mut self: Box<Self>, at: Timestamp) {
        let table = self.table;
        self.locked.release_overflow(&table.rules, &table.budget);
        for locked in &mut self.locked.entries {
            let Some(shard) = shard_among(&mut self.shards, locked.part.fingerprint) else {
                continue;
            };
            let Some(entry) = locked.end() else {
                table.drop_if_reset(shard, &locked.part, at);
                continue;
            };
            match locked.standing {
                Standing::There | Standing::Full => {
                    if let Some((kept, _)) = shard.get_mut(locked.part.fingerprint) {
                        kept.entry = Some(entry);
                        kept.weigh(&table.rules, &table.budget, locked.claimed);
                    }
                    table.drop_if_reset(shard, &locked.part, at);
                }
                Standing::Claimed => {
                    table.add(shard, locked.part.fingerprint, entry, locked.claimed, at)
                }
                _ => {}
            }
        }
    }
}
