//! The work of a table that is the same wherever its limiters are: steps over several, migration and snapshots.
//!
//! A packed and a sharded table are each a [`Home`]: limiters in numbered parts, each part under a lock. The rest of
//! this file needs nothing else of a table, so it is written once for both.

use std::io;

use tidegate_core::{Rule, Timestamp};

use super::budget::Budget;
use super::common::{Common, LockedOverflow};
use super::entry::{Entry, LockedEntry, Standing, TableRules as _};
use super::leaving::Left;
use super::preview::Preview;
use super::succession::{Moved, Succession};
use super::table::{AnyHome, LockedLimiters, Overflow, Part, Restored, Table};
use crate::clock::{Clock, Reading};
use crate::inline_list::InlineList;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};

/// The maximum number of limiters that are written under one lock.
const AT_ONCE: usize = 32;
/// Parts that are written in turn: a lock that is taken again immediately would keep out the threads that wait for it.
const IN_TURN: u32 = 8;

/// A way to keep the limiters of a table: in parts, each under a lock.
pub(super) trait Home: Sized + 'static {
    type Entry: Entry;

    /// A part, locked.
    type Locked<'a>;

    fn common(&self) -> &Common<Self::Entry>;

    /// The number of a limiter's part, until the table grows.
    fn number_of(&self, fingerprint: Fingerprint) -> u32;

    /// Locks the part with this number; `None` after the last part.
    fn lock_number(&self, number: u32) -> Option<Self::Locked<'_>>;

    /// Returns false for a part that had no limiter so far, so that a snapshot need not make it. Only a snapshot may miss
    /// a limiter that is being created.
    fn may_have_limiters(&self, _number: u32) -> bool {
        true
    }

    /// Looks at a limiter; `None` if it is not there.
    fn look<O>(
        &self,
        part: &Self::Locked<'_>,
        fingerprint: Fingerprint,
        look: impl FnOnce(&Self::Entry) -> O,
    ) -> Option<O>;

    /// Looks at all limiters of a part.
    fn look_at_all(&self, part: &Self::Locked<'_>, look: impl FnMut(Fingerprint, &Self::Entry));

    /// Puts a limiter into its part: if it is restored at this time, in place of an earlier state; else a limiter
    /// that is not there yet, whose place is claimed.
    fn put(
        &self,
        part: &mut Self::Locked<'_>,
        fingerprint: Fingerprint,
        entry: Self::Entry,
        restored: Option<Timestamp>,
    ) -> Restored;

    /// Takes a limiter out, whose place stays claimed.
    fn take(&self, part: &mut Self::Locked<'_>, fingerprint: Fingerprint) -> Option<Self::Entry>;

    /// Drops all idle limiters of a part.
    fn sweep_all(&self, part: &mut Self::Locked<'_>, now: Timestamp);

    /// Makes room for later limiters after some were added; no part is locked.
    fn tend(&self, _now: Timestamp) {}

    /// Takes a limiter of its locked part for a step, or makes a new one, with the memory that the step needs.
    fn lock_entry<'a>(
        &self,
        part: &mut Self::Locked<'_>,
        of: Part<'a>,
        now: Timestamp,
    ) -> LockedEntry<'a, Self::Entry>;

    /// Prepares a limiter for a step at this time.
    fn begin(
        &self,
        _part: &mut Self::Locked<'_>,
        _locked: &mut LockedEntry<'_, Self::Entry>,
        _at: Timestamp,
    ) {
    }

    /// Puts a limiter back as the step left it.
    fn put_back(
        &self,
        part: &mut Self::Locked<'_>,
        locked: &mut LockedEntry<'_, Self::Entry>,
        at: Timestamp,
    );

    /// Moves a limiter to its locked part, unless that was done.
    #[cold]
    fn move_in(&self, part: &mut Self::Locked<'_>, fingerprint: Fingerprint) {
        if self.look(part, fingerprint, |_| ()).is_some() {
            return;
        }
        let common = self.common();
        // With the part of the new table locked: always the new table before the old table.
        let Some(left) = common.succession.take(|old| old.take_out(fingerprint)) else { return };
        match common.rules.adopt(left, common.succession.at) {
            // It is idle. Its place has stayed claimed since it left the old table.
            None => common.budget.release(1),
            Some(entry) => _ = self.put(part, fingerprint, entry, None),
        }
    }

    /// Locks the part of a limiter, wherever the limiter is.
    fn lock_as_it_is(&self, fingerprint: Fingerprint) -> Option<Self::Locked<'_>> {
        loop {
            let number = self.number_of(fingerprint);
            let part = self.lock_number(number)?;
            // The part may have been split before it was locked; from now on it cannot be.
            if self.number_of(fingerprint) == number {
                return Some(part);
            }
        }
    }

    /// Locks all parts in turn, if there are limiters: an empty table takes no memory for its parts.
    fn all_parts(&self) -> impl Iterator<Item = Self::Locked<'_>> {
        let has_any = self.common().budget.keys() > 0;
        (0..).take_while(move |_| has_any).map_while(|number| self.lock_number(number))
    }

    /// Adds the next few limiters of a part to a snapshot.
    fn save_some(
        &self,
        number: u32,
        next: &mut impl Iterator<Item = Fingerprint>,
        clock: &dyn Clock,
        records: &mut Records<'_, '_>,
    ) {
        let Some(part) = self.lock_number(number) else { return };
        let now = clock.now();
        for _ in 0..AT_ONCE {
            // A full block is written without a lock; then this part goes on.
            if records.are_full() {
                return;
            }
            let Some(fingerprint) = next.next() else { return };
            let rules = &self.common().rules;
            self.look(&part, fingerprint, |one| one.save(rules, Some(fingerprint), now, records));
        }
    }
}

impl<H: Home> AnyHome for H {
    fn overflow(&self) -> &dyn Overflow {
        self.common()
    }

    fn budget(&self) -> &Budget {
        &self.common().budget
    }

    fn succession(&self) -> &Succession<dyn Table> {
        &self.common().succession
    }

    fn hold<'a>(
        &'a self,
        parts: &[Part<'a>],
        now: Timestamp,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved> {
        LockedTable::lock(self, parts, now)
    }

    fn preview(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<Box<dyn Preview>, Moved> {
        let Part { fingerprint, generation, .. } = *part;
        let common = self.common();
        let Some(mut locked) = self.lock_as_it_is(fingerprint) else { return Err(Moved) };
        if common.succession.check(generation)? {
            self.move_in(&mut locked, fingerprint);
        }
        // Only copied under the lock; the waiters are played through without it.
        let copy = self.look(&locked, fingerprint, H::Entry::clone);
        let now = reading.anew();
        drop(locked);
        Ok(H::Entry::preview(copy, &common.rules, part, now))
    }

    fn amend(&self, rule: &Rule) {
        self.common().rules.amend(rule);
    }

    fn fingerprints(&self, number: u32) -> Option<Vec<Fingerprint>> {
        let part = self.lock_number(number)?;
        let mut all = Vec::new();
        self.look_at_all(&part, |fingerprint, _| all.push(fingerprint));
        Some(all)
    }

    fn take_out(&self, fingerprint: Fingerprint) -> Option<Left> {
        let mut part = self.lock_as_it_is(fingerprint)?;
        self.common().leaving(self.take(&mut part, fingerprint)?)
    }

    fn adopt(&self, fingerprint: Fingerprint) {
        if let Some(mut part) = self.lock_as_it_is(fingerprint) {
            self.move_in(&mut part, fingerprint);
        }
        self.tend(self.common().succession.at);
    }

    fn weigh(&self, rule: &Rule, at: Timestamp) -> (usize, usize) {
        let rules = &self.common().rules;
        let mut bytes = 0_usize;
        let mut count = 0;
        for part in self.all_parts() {
            self.look_at_all(&part, |_, entry| {
                count += 1;
                bytes = bytes.saturating_add(entry.bytes_under(rules, rule, at));
            });
        }
        (bytes, count)
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        for mut part in self.all_parts() {
            self.sweep_all(&mut part, now);
        }
        self.common().budget.keys() == 0 && self.common().is_overflow_idle(now)
    }

    fn save(&self, clock: &dyn Clock, records: &mut Records<'_, '_>) -> io::Result<()> {
        let has_any = self.common().budget.keys() > 0;
        for first in (0..).take_while(|_| has_any).step_by(IN_TURN as usize) {
            let mut turns = Vec::new();
            for number in first..first + IN_TURN {
                // If a part is split during the save, the limiters that leave it go to a later part.
                let has_some = self.may_have_limiters(number);
                let limiters = if has_some { self.fingerprints(number) } else { Some(Vec::new()) };
                let Some(limiters) = limiters else { break };
                turns.push((number, limiters.into_iter()));
            }
            if turns.is_empty() {
                break;
            }
            // A part without limiters need not be locked, which could make it.
            turns.retain(|(_, next)| next.len() > 0);
            while !turns.is_empty() {
                for (number, next) in &mut turns {
                    self.save_some(*number, next, clock, records);
                    records.write()?;
                }
                turns.retain(|(_, next)| next.len() > 0);
            }
        }
        self.common().save_overflow(clock.now(), records);
        records.write()
    }

    fn restore(&self, fingerprint: Option<Fingerprint>, left: Left, at: Timestamp) -> Restored {
        let common = self.common();
        let Some(fingerprint) = fingerprint else { return common.restore_overflow(left, at) };
        let Some(entry) = common.rules.adopt(left, at) else { return Restored::Idle };
        let Some(mut part) = self.lock_as_it_is(fingerprint) else { return Restored::WithoutSpace };
        let restored = self.put(&mut part, fingerprint, entry, Some(at));
        drop(part);
        self.tend(at);
        restored
    }
}

/// The limiters of a step in one table, their parts locked.
pub(super) struct LockedTable<'a, H: Home> {
    home: &'a H,
    parts: InlineList<(u32, H::Locked<'a>)>,
    entries: InlineList<LockedEntry<'a, H::Entry>>,
    /// The overflow limiter if a key has no room, and the index of the first such key: it decides for that key, and the
    /// other keys without room are refused.
    overflow: Option<(LockedOverflow<'a, H::Entry>, usize)>,
}

impl<'a, H: Home> LockedTable<'a, H> {
    /// Locks the limiters of all parts of a step, each once; `now` is at or before the time of the step.
    ///
    /// # Errors
    /// Returns [`Moved`] if the table may not be asked any more.
    pub(super) fn lock(
        home: &'a H,
        asked: &[Part<'a>],
        now: Timestamp,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved> {
        let mut parts = lock_parts(home, asked);
        // All are checked before any is taken out, so that a step that must ask again has nothing to put back.
        for part in asked {
            if home.common().succession.check(part.generation)?
                && let Some(locked) = part_among(home, &mut parts, part.fingerprint)
            {
                home.move_in(locked, part.fingerprint);
            }
        }
        let mut entries = InlineList::new();
        for part in asked {
            let locked = part_among(home, &mut parts, part.fingerprint);
            entries.push(match locked {
                // Without a limit such a step has nothing to do with the limiter.
                _ if part.is_unlimited() && !part.gives_back() => {
                    LockedEntry::without(*part, Standing::Absent)
                }
                Some(locked) => home.lock_entry(locked, *part, now),
                None => LockedEntry::without(*part, Standing::NoSpace),
            });
        }
        let first = entries.iter().position(LockedEntry::has_no_space);
        let mut locked = Box::new(Self { home, parts, entries, overflow: None });
        if let Some(first) = first {
            match home.common().hold_overflow(&locked.entries[first].part, now) {
                Ok(overflow) => locked.overflow = overflow.map(|overflow| (overflow, first)),
                // Not only dropped: limiters were taken out, and places were claimed.
                Err(Moved) => {
                    locked.release(now);
                    return Err(Moved);
                }
            }
        }
        Ok(locked)
    }
}

/// Locks the parts of all limiters, in the order of their numbers.
fn lock_parts<'a, H: Home>(home: &'a H, asked: &[Part<'_>]) -> InlineList<(u32, H::Locked<'a>)> {
    loop {
        let numbers = asked.iter().map(|part| home.number_of(part.fingerprint));
        let mut numbers: InlineList<_> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        let lock = |number: &u32| Some((*number, home.lock_number(*number)?));
        let parts: InlineList<_> = numbers.iter().filter_map(lock).collect();
        // A part may have been split before it was locked; from now on none can be.
        let mut of_all = asked.iter().map(|part| home.number_of(part.fingerprint));
        if of_all.all(|number| numbers.binary_search(&number).is_ok()) {
            return parts;
        }
    }
}

/// Returns the part of a limiter among the locked parts.
fn part_among<'s, 'a, H: Home>(
    home: &H,
    parts: &'s mut [(u32, H::Locked<'a>)],
    fingerprint: Fingerprint,
) -> Option<&'s mut H::Locked<'a>> {
    let of_limiter = home.number_of(fingerprint);
    parts.iter_mut().find(|(number, _)| *number == of_limiter).map(|(_, part)| part)
}

impl<H: Home> LockedLimiters for LockedTable<'_, H> {
    fn begin(&mut self, at: Timestamp) {
        for locked in &mut self.entries {
            if let Some(part) = part_among(self.home, &mut self.parts, locked.part.fingerprint) {
                self.home.begin(part, locked, at);
            }
        }
    }

    fn run(&mut self, number: usize, step: Step, at: Timestamp) -> One {
        let shared = self.overflow.as_mut().filter(|(_, first)| *first == number);
        let shared = shared.and_then(|((shared, _), _)| shared.entry.as_mut());
        self.entries[number].run(&self.home.common().rules, shared, step, at)
    }

    fn release(mut self: Box<Self>, at: Timestamp) {
        let home = self.home;
        if let Some(((mut shared, claimed), _)) = self.overflow.take() {
            home.common().weigh_overflow(&mut shared, claimed);
        }
        for locked in &mut self.entries {
            if let Some(part) = part_among(home, &mut self.parts, locked.part.fingerprint) {
                home.put_back(part, locked, at);
            }
        }
        let mut standings = self.entries.iter().map(|entry| entry.standing);
        let added = standings.any(|standing| matches!(standing, Standing::Claimed));
        // A table grows only while none of its parts is locked here.
        drop(self);
        if added {
            home.tend(at);
        }
    }
}
