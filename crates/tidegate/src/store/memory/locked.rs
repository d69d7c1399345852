//! Limiters that a step over several has to itself.

use tidegate_core::{Decision, Timestamp};

use super::common::LockedOverflow;
use super::entry::{Change, Entry};
use super::home::Home;
use super::succession::Moved;
use super::table::{LockedLimiters, Part};
use crate::inline_list::InlineList;
use crate::key::Fingerprint;
use crate::step::{One, Step};

/// One limiter of a step over several.
#[derive(Debug)]
pub(super) struct LockedEntry<'a, E: Entry> {
    pub(super) part: Part<'a>,
    pub(super) standing: Standing,
    /// The limiter; `None` if the overflow limiter decides, or none.
    pub(super) entry: Option<E>,
    pub(super) change: Option<Box<Change<E>>>,
    /// Bytes claimed for the growth of the limiter in this step.
    pub(super) claimed: usize,
}

/// The standing of a limiter in its table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Standing {
    /// The limiter is in the table.
    There,
    /// The limiter is in the table, without memory for one more unit.
    Full,
    /// The limiter is not in the table, and a place is claimed for it.
    Claimed,
    /// The limiter is not in the table, and this step stores nothing.
    Absent,
    /// The limiter is not in the table, and there is no room.
    NoSpace,
    /// The rule is unlimited; units are given back to the limiter if it is in the table.
    Unlimited,
    /// The limiter does not decide, but this; units are given back to it if it is in the table.
    Refused(Decision),
}

impl<'a, E: Entry> LockedEntry<'a, E> {
    /// Creates the entry of a limiter in the table, or of a place for one.
    pub(super) const fn new(part: Part<'a>, standing: Standing, entry: E, claimed: usize) -> Self {
        Self { part, standing, entry: Some(entry), change: None, claimed }
    }

    /// Creates the entry of a key without room, or whose limiter does not decide.
    pub(super) const fn without(part: Part<'a>, standing: Standing) -> Self {
        Self { part, standing, entry: None, change: None, claimed: 0 }
    }

    const fn has_no_space(&self) -> bool {
        matches!(self.standing, Standing::NoSpace)
    }

    /// Returns the limiter as the step leaves it.
    pub(super) fn end(&mut self) -> Option<E> {
        let undone = self.change.take().filter(|change| !change.in_force);
        undone.map(|change| change.before).or(self.entry.take())
    }

    /// Runs a step; `shared` is the overflow limiter, if it decides for this key.
    pub(super) fn run(
        &mut self,
        rules: &E::Rules,
        shared: Option<&mut E>,
        step: Step,
        at: Timestamp,
    ) -> One {
        let cost = self.part.cost;
        let one = match (self.standing, &mut self.entry) {
            (Standing::Unlimited, _) => Some(One::unlimited(at)),
            (Standing::Refused(decision), _) => Some(One::instead(decision, at)),
            (Standing::Full, Some(entry)) => entry.run_in_place(rules, step, cost, at),
            (_, Some(entry)) => {
                let one = entry.run(rules, step, cost, at);
                Some(match &mut self.change {
                    Some(change) => change.reply(one, step, cost),
                    None => one,
                })
            }
            (_, None) => shared.map(|entry| {
                let one = entry.run(rules, step.beyond(cost), cost, at);
                One { overflow: true, elsewhere: true, ..one }
            }),
        };
        one.unwrap_or_else(|| One::instead(E::refusal(rules, &self.part, false), at))
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
        for part in asked {
            if home.common().succession.check(part.generation)?
                && let Some(locked) = part_among(home, &mut parts, part.fingerprint)
            {
                home.move_in(locked, part.fingerprint);
            }
        }
        let mut entries = InlineList::new();
        for part in asked {
            entries.push(match part_among(home, &mut parts, part.fingerprint) {
                Some(locked) => home.lock_entry(locked, *part, now),
                None => LockedEntry::without(*part, Standing::NoSpace),
            });
        }
        let first = entries.iter().position(LockedEntry::has_no_space);
        let mut locked = Box::new(Self { home, parts, entries, overflow: None });
        if let Some(first) = first {
            match home.common().hold_overflow(&locked.entries[first].part, now) {
                Ok(overflow) => locked.overflow = overflow.map(|overflow| (overflow, first)),
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
        let locked = &mut self.entries[number];
        match part_among(self.home, &mut self.parts, locked.part.fingerprint) {
            Some(part) => self.home.run(part, locked, shared, step, at),
            None => locked.run(&self.home.common().rules, shared, step, at),
        }
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
