//! The units in use of a state, from which another store makes a state that admits no more.
//!
//! A process that knows which units a limiter had in use, and since when, can carry them to a store that lost its data.
//! The units are taken again, at their times, from a state in which nothing is used. If the store has a state as well,
//! the state that admits less stays.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::algorithm::{Algorithm, CarryUnits};
use crate::held::Held;
use crate::level::{Level, Rate};
use crate::past::Since;
use crate::rule::{Rule, Visitor};
use crate::script::ScriptReply;
use crate::time::{Micros, Timestamp};

/// Units in use, and when they count as taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedUnits {
    /// When they count as taken, by the clock of the store.
    pub since: Timestamp,
    /// The number of units.
    pub units: u64,
}

/// Units in use that a process knows of, and how it knows of them.
#[derive(Clone, Copy, Debug)]
pub struct KnownUnits<'a> {
    /// The units, oldest first.
    pub used: &'a [UsedUnits],
    /// When the store reported them.
    pub reported: Timestamp,
    /// When the last unit was taken: a state that is as new has lost none of them. `None` if the store lost data.
    pub last: Option<Timestamp>,
}

impl<R: Algorithm> Held<'_, R> {
    /// Puts the state that these units leave in place of the state of the limiter, if it admits less at `now`. Returns
    /// whether it did. Of two states that admit as much, the state whose units leave later admits less; if both are
    /// equal in this, the limiter keeps its own, and also if it was reset after the units were reported.
    pub fn carry(&mut self, known: KnownUnits<'_>, now: Timestamp) -> bool {
        let KnownUnits { used, reported, last } = known;
        if let Some(state) = self.state() {
            let past = self.algorithm().past(state);
            let was_reset = past.is_some_and(|past| !past.admits(Since::at(reported)));
            if was_reset || last.is_some_and(|last| self.algorithm().last(state) >= last) {
                return false;
            }
        }
        let carried = state_of(self.algorithm(), used);
        let mut both = [Some(carried.clone()), self.state().cloned()];
        let [carried_use, own_use] = both.each_mut().map(|state| self.use_of(state, now));
        let admits_less = carried_use.cmp(&own_use) == Ordering::Greater;
        if admits_less {
            self.replace(carried);
        }
        admits_less
    }

    /// The amount that a state has in use at `now`, and the time for which it has.
    fn use_of(&self, state: &mut Option<R::State>, now: Timestamp) -> (u128, u64) {
        let Some(state) = state else { return (0, 0) };
        let at = self.algorithm().advance(state, now);
        let lasts = self.algorithm().reset_after(state, at);
        (self.algorithm().amount(state, at), at.plus(lasts).since(now).as_micros())
    }
}

/// The state in which these units, oldest first, are in use.
fn state_of<R: Algorithm>(algorithm: &R, used: &[UsedUnits]) -> R::State {
    // A fresh state may begin with units in use, which are among these.
    let mut state = algorithm.unused();
    for UsedUnits { since, units } in used {
        let at = algorithm.advance(&mut state, *since);
        algorithm.take(&mut state, at, *units);
    }
    state
}

/// A level at `at` as whole units, and the time when they were taken if part of the last has drained since.
pub(crate) fn level_units(level: &Level, rate: Rate, at: Timestamp) -> (Timestamp, u64) {
    let left = level.left(rate, at);
    let units = rate.units_ceil(left);
    let drained = rate.grains(units).saturating_sub(left);
    // Rounded down, so that no more than this has drained.
    let ago = rate.wait(drained.saturating_add(1)).as_micros().saturating_sub(1);
    let since = if drained == 0 { at } else { at.minus(Micros::from_micros(ago)) };
    (since, units)
}

/// The units in use of a state, oldest first, and the time of the last.
fn used_of<R: CarryUnits>(
    algorithm: &R,
    state: &R::State,
    at: Timestamp,
) -> (Vec<UsedUnits>, Timestamp) {
    let mut used = Vec::new();
    algorithm.used_units(state, at, &mut |since, units| {
        if units > 0 {
            used.push(UsedUnits { since, units });
        }
    });
    (used, algorithm.last(state))
}

impl<R: Algorithm> Held<'_, R> {
    /// The units in use at the end of the step, oldest first, and the time of the last unit.
    pub fn used_units(&self) -> (Vec<UsedUnits>, Timestamp) {
        let state = self.state();
        state.map_or_else(Default::default, |state| used_of(self.algorithm(), state, self.at()))
    }
}

impl Rule {
    /// The units in use of a limiter, oldest first, and the time of the last, by the reply of the rule's script. If the
    /// script returns only a part of the state, units that count longer stand for others: the limiter admits no more
    /// with these.
    #[must_use]
    pub fn used_units(&self, reply: &ScriptReply) -> (Vec<UsedUnits>, Timestamp) {
        self.visit(UsedVisitor(reply)).unwrap_or_default()
    }
}

impl Rule {
    /// The maximum number of entries of [`Rule::known_units`].
    pub const MOST_KNOWN: usize = 12;

    /// The units in use of a limiter, oldest first, by what a store `reported` of them at `at` and what was `known`
    /// before. A script that returns a part of the state reports all units as of the last: the units that are known
    /// keep their own times. Units are joined under the later time if there are many entries, so that no more is
    /// admitted with them.
    #[must_use]
    pub fn known_units(
        &self,
        known: &[UsedUnits],
        mut reported: Vec<UsedUnits>,
        at: Timestamp,
    ) -> Vec<UsedUnits> {
        if !self.spec().algorithm.reply_is_whole() && !known.is_empty() {
            reported =
                self.visit(KnownVisitor { known, reported: &reported, at }).unwrap_or_default();
        }
        join_nearest(&mut reported);
        // The process keeps them, and a script may report a thousand.
        if reported.capacity() > 2 * Self::MOST_KNOWN {
            reported.shrink_to_fit();
        }
        reported
    }
}

fn sum(used: &[UsedUnits]) -> u64 {
    used.iter().fold(0, |sum, one| sum.saturating_add(one.units))
}

/// Joins the entries that are nearest to each other until few are left.
fn join_nearest(used: &mut Vec<UsedUnits>) {
    if used.len() > 2 * Rule::MOST_KNOWN
        && let (Some(first), Some(last)) = (used.first(), used.last())
    {
        // In one pass, because each of many would be compared with all.
        let part = last.since.since(first.since).as_micros() / Rule::MOST_KNOWN as u64 + 1;
        let begin = first.since;
        used.reverse();
        used.dedup_by(|earlier, later| {
            let [its, others] =
                [&*earlier, &*later].map(|one| one.since.since(begin).as_micros() / part);
            if its == others {
                later.units = later.units.saturating_add(earlier.units);
            }
            its == others
        });
        used.reverse();
    }
    while used.len() > Rule::MOST_KNOWN {
        let gaps = used.windows(2).map(|pair| match pair {
            [one, next] => next.since.since(one.since),
            _ => Micros::MAX,
        });
        let Some((nearest, _)) = gaps.enumerate().min_by_key(|(_, gap)| *gap) else { return };
        let joined = used.remove(nearest);
        if let Some(later) = used.get_mut(nearest) {
            later.units = later.units.saturating_add(joined.units);
        }
    }
}

struct KnownVisitor<'a> {
    known: &'a [UsedUnits],
    reported: &'a [UsedUnits],
    at: Timestamp,
}

impl Visitor for KnownVisitor<'_> {
    type Out = Vec<UsedUnits>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Vec<UsedUnits> {
        let Self { known, reported, at } = self;
        let counting = known.iter().filter(|one| algorithm.ends(one.since) > at);
        let mut used: Vec<_> = counting.copied().collect();
        // The report has the number of all units, and not the time of each.
        let all = sum(reported);
        let mut over = sum(&used).saturating_sub(all);
        // Units that came back, whichever they are: the oldest go, because the others count longer.
        for one in &mut used {
            let goes = one.units.min(over);
            (one.units, over) = (one.units - goes, over - goes);
        }
        // Units of other nodes, of which only the last has a time.
        used.retain(|one| one.units > 0);
        let units = all.saturating_sub(sum(&used));
        if let Some(newest) = reported.last().filter(|_| units > 0) {
            used.push(UsedUnits { since: newest.since, units });
            used.sort_by_key(|one| one.since);
        }
        used
    }
}

struct UsedVisitor<'a>(&'a ScriptReply);

impl Visitor for UsedVisitor<'_> {
    type Out = (Vec<UsedUnits>, Timestamp);

    fn visit<R: Algorithm>(self, algorithm: &R) -> (Vec<UsedUnits>, Timestamp) {
        let state = algorithm.decode_state(&self.0.state);
        state.map_or_else(Default::default, |state| used_of(algorithm, &state, self.0.at))
    }
}
