//! Packed limiters locked for a step over several.

use tidegate_core::{Algorithm, Timestamp};

use super::Packed;
use super::chains::{Chain, Chains, Place};
use super::spilled::is_spilled;
use crate::inline_list::InlineList;
use crate::key::Fingerprint;
use crate::step::{One, Step};
use crate::store::memory::fixed::FixedEntry;
use crate::store::memory::locked::{LockedEntries, LockedEntry, Standing};
use crate::store::memory::succession::Moved;
use crate::store::memory::table::{LockedLimiters, Part};

/// Limiters of one table, their chains locked.
#[derive(Debug)]
struct HeldChains<'a, R: Algorithm, const PLACES: usize, const WORDS: usize> {
    table: &'a Packed<R, PLACES, WORDS>,
    chains: InlineList<Chain<'a, PLACES, WORDS>>,
    locked: LockedEntries<'a, FixedEntry<R>>,
}

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Packed<R, PLACES, WORDS> {
    /// Locks the chains of all parts, and takes their limiters.
    pub(super) fn hold_chains<'a>(
        &'a self,
        parts: &[Part<'a>],
        now: Timestamp,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved> {
        let chains = self.lock_all(parts)?;
        let entry = |part: &Part<'a>| self.lock_entry(&chains, *part, now);
        let entries = parts.iter().map(entry).collect();
        let mut held =
            Box::new(HeldChains { table: self, chains, locked: LockedEntries::new(entries) });
        match held.locked.lock_overflow(&self.common, now) {
            Ok(()) => Ok(held),
            Err(Moved) => {
                held.release(now);
                Err(Moved)
            }
        }
    }

    /// Locks the chains of all parts, in the order of their numbers, and moves limiters there from an old table.
    fn lock_all(&self, parts: &[Part<'_>]) -> Result<InlineList<Chain<'_, PLACES, WORDS>>, Moved> {
        loop {
            let mut numbers: InlineList<_> =
                parts.iter().map(|part| self.chains.number_of(part.fingerprint)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let locked = numbers.iter().map(|number| self.chains.lock_number(*number));
            let chains: InlineList<_> = locked.flatten().collect();
            // A chain may have been split before it was locked; from now on none can be.
            let holds = |part: &Part<'_>| {
                numbers.binary_search(&self.chains.number_of(part.fingerprint)).is_ok()
            };
            if parts.iter().all(holds) {
                for part in parts {
                    if self.common.succession.check(part.generation)?
                        && let Some(chain) = of_fingerprint(&chains, &self.chains, part.fingerprint)
                    {
                        self.move_to(chain, part.fingerprint);
                    }
                }
                return Ok(chains);
            }
        }
    }

    fn lock_entry<'a>(
        &self,
        chains: &[Chain<'_, PLACES, WORDS>],
        part: Part<'a>,
        now: Timestamp,
    ) -> LockedEntry<'a, FixedEntry<R>> {
        let found = find(chains, &self.chains, part.fingerprint);
        let slot = found.map(|place| self.unpack(part.fingerprint, place.state()));
        let stays = part.step.takes(part.cost);
        let standing = match slot {
            Some(_) => Standing::There,
            None if !self.find_space(stays, now) => {
                return LockedEntry::without(part, Standing::NoSpace);
            }
            None if stays => Standing::Claimed,
            None => Standing::Absent,
        };
        LockedEntry::new(part, standing, FixedEntry(slot), 0)
    }
}

/// Returns the place of a limiter in the locked chains.
fn find<'a, const PLACES: usize, const WORDS: usize>(
    chains: &[Chain<'a, PLACES, WORDS>],
    of: &Chains<PLACES, WORDS>,
    fingerprint: Fingerprint,
) -> Option<Place<'a, PLACES, WORDS>> {
    of_fingerprint(chains, of, fingerprint)?.find(fingerprint)
}

fn of_fingerprint<'c, 'a, const PLACES: usize, const WORDS: usize>(
    chains: &'c [Chain<'a, PLACES, WORDS>],
    of: &Chains<PLACES, WORDS>,
    fingerprint: Fingerprint,
) -> Option<&'c Chain<'a, PLACES, WORDS>> {
    let number = of.number_of(fingerprint);
    chains.iter().find(|chain| chain.number() == number)
}

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> LockedLimiters
    for HeldChains<'_, R, PLACES, WORDS>
{
    fn run(&mut self, number: usize, step: Step, at: Timestamp) -> One {
        let (entry, shared) = self.locked.entry(number);
        entry.run(&self.table.common.rules, shared, step, at)
    }

    fn release(mut self: Box<Self>, at: Timestamp) {
        let table = self.table;
        self.locked.release_overflow(&table.common);
        let mut added = false;
        for locked in &mut self.locked.entries {
            let Part { fingerprint, step, cost, .. } = locked.part;
            let Some(chain) = of_fingerprint(&self.chains, &table.chains, fingerprint) else {
                continue;
            };
            let state = locked.end().and_then(|entry| entry.0);
            match (locked.standing, chain.find(fingerprint)) {
                (Standing::There, Some(place)) => {
                    let may_be_cut = step.may_not_fit(cost) || is_spilled(place.state());
                    table.store(
                        chain,
                        place,
                        fingerprint,
                        table.words(fingerprint, state, may_be_cut, at),
                    );
                }
                (Standing::Claimed, _) => {
                    table.add(
                        chain,
                        fingerprint,
                        table.words(fingerprint, state, step.may_not_fit(cost), at),
                    );
                    added = true;
                }
                _ => {}
            }
        }
        drop(self);
        if added {
            table.tend(at);
        }
    }
}
