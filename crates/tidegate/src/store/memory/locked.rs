//! Limiters that a step over several has to itself.

use tidegate_core::{Decision, Timestamp};

use super::entry::{Change, Entry};
use super::table::Part;
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

    pub(super) const fn has_no_space(&self) -> bool {
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
            // There is no memory for one unit more: new units are kept more coarsely.
            (Standing::Full, Some(entry)) => entry.run_in_place(rules, step, cost, at),
            (_, Some(entry)) => {
                let one = entry.run(rules, step, cost, at);
                Some(match &mut self.change {
                    Some(change) => change.reply(one, step, cost),
                    None => one,
                })
            }
            // It gives nothing back there, because it is not known where its units were taken.
            (_, None) => shared.map(|entry| {
                let one = entry.run(rules, step.beyond(cost), cost, at);
                One { overflow: true, elsewhere: true, ..one }
            }),
        };
        one.unwrap_or_else(|| One::instead(E::refusal(rules, &self.part, false), at))
    }
}
