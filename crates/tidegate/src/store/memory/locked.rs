//! Locked entries: limiters that a step over several has to itself.

use tidegate_core::Timestamp;

use super::budget::Budget;
use super::entry::{Change, Entry};
use super::overflow::{LockedOverflow, Overflow};
use super::preset::{Marked, Preset};
use super::succession::{Moved, Succession};
use super::table::{LockedLimiter, LockedVerbs, Part, StoreVerbs, Table};
use crate::inline_list::{InlineList, StepList};

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
    /// The limiter does not decide; units are given back to it if it is in the table.
    Preset(Preset),
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

    /// Returns the limiter as the step leaves it.
    pub(super) fn end(&mut self) -> Option<E> {
        let undone = self.change.take().filter(|change| !change.in_force);
        undone.map(|change| change.before).or(self.entry.take())
    }

    /// Returns its verbs; `shared` is the overflow limiter, for the first key that needs it.
    fn verbs<'h>(
        &'h mut self,
        rules: &'h E::Rules,
        shared: &mut Option<&'h mut E>,
    ) -> Box<dyn StoreVerbs + 'h> {
        let Part { cost, enforced, .. } = self.part;
        let in_place = matches!(self.standing, Standing::Full);
        match (self.standing, &mut self.entry) {
            (Standing::Preset(preset), _) => Box::new(preset),
            (_, Some(entry)) => {
                let verbs = entry.verbs(rules, cost, enforced, in_place);
                match &mut self.change {
                    None if !in_place => verbs,
                    None => Box::new(Marked { overflow: true, ..Marked::new(verbs) }),
                    Some(change) => {
                        let denied = change.denied();
                        let taken = Some(&mut change.in_force).filter(|_| change.commits);
                        Box::new(Marked { denied, taken, ..Marked::new(verbs) })
                    }
                }
            }
            (_, None) => match shared.take() {
                Some(entry) => {
                    let marked = Marked::new(entry.verbs(rules, cost, enforced, false));
                    Box::new(Marked { overflow: true, shared: true, ..marked })
                }
                None => Box::new(E::refusal(rules, &self.part, false)),
            },
        }
    }
}

/// All limiters of a step in one table, and the overflow limiter if one of them needs it.
#[derive(Debug)]
pub(super) struct LockedEntries<'a, E: Entry> {
    pub(super) entries: InlineList<LockedEntry<'a, E>>,
    overflow: Option<LockedOverflow<'a, E>>,
}

impl<'a, E: Entry> LockedEntries<'a, E> {
    pub(super) const fn new(entries: InlineList<LockedEntry<'a, E>>) -> Self {
        Self { entries, overflow: None }
    }

    /// Locks the overflow limiter if a key has no room; `now` is at or before the time of the step.
    ///
    /// # Errors
    /// Returns [`Moved`] if the table may not be asked any more.
    pub(super) fn lock_overflow(
        &mut self,
        overflow: &'a Overflow<E>,
        rules: &E::Rules,
        budget: &Budget,
        succession: &Succession<dyn Table>,
        now: Timestamp,
    ) -> Result<(), Moved> {
        let first = self.entries.iter().find(|entry| matches!(entry.standing, Standing::NoSpace));
        if let Some(first) = first {
            self.overflow = overflow.hold(rules, budget, succession, &first.part, now)?;
        }
        Ok(())
    }

    /// Adds the verbs of all limiters to a list. The first key without room gets the overflow limiter; the other
    /// keys without room are refused.
    pub(super) fn held<'h>(
        &'h mut self,
        rules: &'h E::Rules,
        held: &mut StepList<LockedLimiter<'h>>,
    ) {
        let mut shared = self.overflow.as_mut().and_then(|(shared, _)| shared.entry.as_mut());
        let verbs = self.entries.iter_mut().map(|entry| LockedLimiter {
            place: entry.part.place,
            began: entry.entry.as_ref().map_or(Timestamp::EPOCH, E::began),
            verbs: LockedVerbs::Made(entry.verbs(rules, &mut shared)),
        });
        held.extend(verbs);
    }

    /// Unlocks the overflow limiter, and counts its bytes.
    pub(super) fn release_overflow(&mut self, rules: &E::Rules, budget: &Budget) {
        if let Some((mut shared, claimed)) = self.overflow.take() {
            shared.weigh(rules, budget, claimed);
        }
    }
}
