//! Sliding log: the time of every admitted unit, so that no window of length W holds more than N.
//!
//! Units of one tick share an *entry*. `ring.rs` keeps the entries, `persist.rs` writes them to a snapshot, and
//! `scripted.rs` chooses between two scripts for Redis.

mod persist;
mod ring;
mod scripted;

use core::time::Duration;

use crate::algorithm::{Amend, CarryUnits, Decide, Lease, Pack};
use crate::decision::Verdict;
use crate::error::{RuleError, RuleErrors};
use crate::field::Field;
use crate::past::{Past, Since};
use crate::spec::{DEFAULT_MAX_MEMORY, Layout, Spec};
use crate::time::{Micros, Timestamp};
use ring::{LogEntry, LogRing};

/// At most N units in every half-open window `(t-W, t]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    max_debt: Option<u64>,
    window: Micros,
    tick_us: u64,
    most_entries: u64,
    layout: Layout,
}

/// The admitted units, one entry for all of one tick, oldest first.
///
/// Entries carry running totals, which may wrap; `gone` is the total before the first unit still
/// held. So `total - gone` of an entry is the number of units held up to and including it. The u-th
/// oldest unit is in the first entry for which that number is at least u. Every entry holds at
/// least one unit, so it is one of the first u entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    ring: LogRing,
    gone: u64,
    last: Timestamp,
    past: Past,
}

impl State {
    /// Units held, from the oldest up to and including the units of an entry.
    const fn through(&self, entry: &LogEntry) -> u64 {
        entry.total.wrapping_sub(self.gone)
    }

    /// Units held: those that count, and some that have left but were not dropped yet.
    fn held(&self) -> u64 {
        self.ring.back().map_or(0, |newest| self.through(newest))
    }

    /// The entry of the `nth` oldest unit held (1 is the oldest) and its index. It reads one entry
    /// for the oldest, and log2(`nth`) + 1 for any other, however many are held.
    fn of_unit(&self, nth: u64) -> Option<(usize, &LogEntry)> {
        let among = usize::try_from(nth).unwrap_or(usize::MAX);
        self.ring.first(among, |entry| self.through(entry) >= nth)
    }

    /// The units held that have left by `at`, and the number of their entries; a binary search.
    fn left(&self, at: Timestamp) -> (u64, usize) {
        let counts = self.ring.first(usize::MAX, |entry| entry.leaves > at);
        let entries = counts.map_or(self.ring.len(), |(index, _)| index);
        let newest = entries.checked_sub(1).and_then(|index| self.ring.get(index));
        (newest.map_or(0, |entry| self.through(entry)), entries)
    }

    /// Drops the oldest `units`; the last dropped unit is in the entry at `index`.
    fn forget(&mut self, units: u64, index: usize) {
        self.gone = self.gone.wrapping_add(units);
        // The entry of the last dropped unit goes too, if it has no other unit.
        let is_empty = self.ring.get(index).is_some_and(|entry| self.through(entry) == 0);
        self.ring.skip(index + usize::from(is_empty));
    }
}

/// Largest number of units held; units taken beyond it, in debt, are not counted.
const MOST_HELD: u64 = 1 << 62;

impl SlidingLog {
    /// A unit counts as of the last microsecond of its tick, so that no window ever exceeds N.
    fn end_of_tick(&self, at: Timestamp) -> Timestamp {
        let into = at.as_micros() % self.tick_us;
        at.plus(Micros::from_micros(self.tick_us - 1 - into))
    }

    /// The time when a unit admitted at `at` stops counting.
    fn leaves(&self, at: Timestamp) -> Timestamp {
        self.end_of_tick(at).plus(self.window)
    }

    fn wait(leaves: Option<&LogEntry>, at: Timestamp) -> Micros {
        leaves.map_or(Micros::ZERO, |entry| entry.leaves.since(at))
    }

    /// Units that count at `at`; needed only for the values of a decision.
    fn count(state: &State, at: Timestamp) -> u64 {
        state.held() - state.left(at).0
    }

    /// The number of the oldest units that must have left for `cost` more to fit.
    fn over(&self, state: &State, cost: u64) -> u64 {
        state.held().saturating_add(cost).saturating_sub(self.limit)
    }

    /// Drops the units that had to leave before `cost` fits. So at most N are held, and no later
    /// verdict searches further than its own cost. The dropped units count at no later reading,
    /// because no reading counts as earlier than the units taken now. A debt drops all units that
    /// have left.
    fn forget_what_made_space(&self, state: &mut State, at: Timestamp, cost: u64) {
        let over = self.over(state, cost);
        let found = if over == 0 { None } else { state.of_unit(over) };
        match found {
            Some((index, entry)) if entry.leaves <= at => state.forget(over, index),
            None if over == 0 => {}
            // A debt: units that had to leave still count.
            _ => {
                let (left, entries) = state.left(at);
                state.forget(left, entries);
            }
        }
    }

    /// Makes the entry of units taken now, after dropping entries that are no longer needed.
    fn entry(&self, state: &mut State, at: Timestamp, cost: u64) -> LogEntry {
        self.forget_what_made_space(state, at, cost);
        Self::drop_one_that_left(state, at);
        Self::drop_one_that_left(state, at);
        state.ring.free_some();
        state.last = at;
        // Keeps entries in order if the clock went back to the middle of a tick.
        let leaves =
            state.ring.back().map_or(Timestamp::EPOCH, |newest| newest.leaves).max(self.leaves(at));
        let held = state.held();
        // The bound stops new units, and takes none away.
        let total = state.gone.wrapping_add(held.saturating_add(cost).min(MOST_HELD.max(held)));
        LogEntry { leaves, total }
    }

    /// Drops the oldest entry if it has left. It is called twice for each added entry, so the ring
    /// never holds more entries than can count at one instant, and needs no sweep.
    fn drop_one_that_left(state: &mut State, at: Timestamp) {
        if let Some(oldest) = state.ring.front().copied().filter(|oldest| oldest.leaves <= at) {
            state.gone = oldest.total;
            state.ring.skip(1);
        }
    }
}

impl Decide for SlidingLog {
    type State = State;
    const FIELDS: &'static [Field] = &[Field::Resolution, Field::Layout, Field::MaxMemory];

    /// Sets a resolution coarse enough for the memory of a log with a limit above a million.
    fn fit(spec: &mut Spec, limit: u64, window: Micros) {
        const LARGEST: u64 = 1_000_000;
        if limit > LARGEST {
            spec.resolution = Some(Duration::from_micros(window.as_micros().div_ceil(LARGEST)));
        }
    }

    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors> {
        let tick_us = spec.resolution.map_or(1, |tick| Micros::from(tick).as_micros());
        // Units of one tick share an entry. A window that begins
        // within a tick touches one tick more than it is long.
        let most_entries = limit.min(window.as_micros().div_ceil(tick_us) + 1);
        let layout = spec.layout.unwrap_or_default();
        let max_debt = spec.max_debt;
        let algorithm = Self { limit, max_debt, window, tick_us, most_entries, layout };
        let max_memory = spec.max_memory.unwrap_or(DEFAULT_MAX_MEMORY);
        let bytes = algorithm.most_heap_bytes();
        if bytes > max_memory {
            // One less than fits, for the tick in which a window begins.
            let entries = (max_memory / LogRing::BYTES_PER_ENTRY).saturating_sub(1).max(1);
            let resolution = Some(round_up(window.as_micros().div_ceil(entries)));
            return Err(RuleError::TooLarge { bytes, max_memory, resolution }.into());
        }
        Ok(algorithm)
    }

    fn fresh(&self, _now: Timestamp) -> State {
        let ring = LogRing::for_entries(self.most_entries);
        State { ring, gone: 0, last: Timestamp::EPOCH, past: Past::NONE }
    }

    /// Admits if the unit that has to leave has left: the (held + cost - N)-th oldest.
    fn decide(&self, state: &State, at: Timestamp, cost: u64) -> Verdict {
        if cost > self.limit {
            return Verdict::Never;
        }
        match self.over(state, cost) {
            0 => Verdict::Allow,
            over if state.of_unit(over).is_some_and(|(_, entry)| entry.leaves > at) => {
                Verdict::Deny
            }
            _ => Verdict::Allow,
        }
    }

    fn take(&self, state: &mut State, at: Timestamp, cost: u64) {
        let entry = self.entry(state, at, cost);
        state.ring.record(entry);
    }

    /// If no entry can be added, the units of the newest entry leave together with the new units.
    fn take_in_place(&self, state: &mut State, at: Timestamp, cost: u64) {
        let entry = self.entry(state, at, cost);
        if state.ring.has_place() {
            state.ring.record(entry);
        } else {
            state.ring.replace_newest(entry);
        }
    }

    fn has_place(&self, state: &State) -> bool {
        state.ring.has_place()
    }

    /// Gives back the oldest units that count. Units that had left when the last unit was taken
    /// count at no later reading, and are dropped in one step. Units that have left since are kept,
    /// in case the clock goes back a little: they move up over the emptied entries.
    fn give_back(&self, state: &mut State, at: Timestamp, units: u64) {
        let (left, entries_left) = state.left(state.last);
        state.forget(left, entries_left);
        let (left, entries_left) = state.left(at);
        let units = units.min(state.held() - left);
        if units == 0 {
            return;
        }
        let kept = state.ring.first(usize::MAX, |entry| state.through(entry) > left + units);
        let emptied = kept.map_or(state.ring.len(), |(index, _)| index) - entries_left;
        // From the newest back, so that no entry is overwritten before it has moved.
        for index in (0..entries_left).rev() {
            state.ring.put_over(index, index + emptied, |entry| LogEntry {
                total: entry.total.wrapping_add(units),
                ..entry
            });
        }
        state.gone = state.gone.wrapping_add(units);
        state.ring.skip(emptied);
        state.ring.free_some();
    }

    /// If they count, as many of the oldest units that count are dropped in their place, so the units that stay leave
    /// later.
    fn give_back_since(&self, state: &mut State, at: Timestamp, units: u64, since: Since) -> u64 {
        if self.leaves(since.at) <= at || !state.past.admits(since) {
            return 0;
        }
        let before = state.held() - state.left(at).0;
        self.give_back(state, at, units);
        units.min(before)
    }

    fn past<'s>(&self, state: &'s State) -> Option<&'s Past> {
        Some(&state.past)
    }

    fn past_mut<'s>(&self, state: &'s mut State) -> Option<&'s mut Past> {
        Some(&mut state.past)
    }

    fn counts_for(&self, _units: u64) -> Micros {
        self.window.plus(Micros::from_micros(self.tick_us))
    }

    fn window(&self) -> Micros {
        self.window
    }

    fn last(&self, state: &State) -> Timestamp {
        state.last
    }

    fn rewind(&self, state: &mut State, to: Timestamp) {
        let step = state.last.since(to);
        state.ring.entries_mut().for_each(|entry| entry.leaves = entry.leaves.minus(step));
        state.last = to;
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn max_debt(&self) -> Option<u64> {
        self.max_debt
    }

    fn remaining(&self, state: &State, at: Timestamp) -> u64 {
        self.limit.saturating_sub(Self::count(state, at))
    }

    fn retry_after(&self, state: &State, at: Timestamp, cost: u64) -> Micros {
        let over = self.over(state, cost);
        Self::wait(state.of_unit(over).map(|(_, entry)| entry), at)
    }

    fn reset_after(&self, state: &State, at: Timestamp) -> Micros {
        Self::wait(state.ring.back(), at)
    }

    fn bound(&self, _largest_cost: u64) -> u64 {
        self.limit
    }

    fn used(&self, state: &State, at: Timestamp) -> u64 {
        Self::count(state, at)
    }

    fn heap_bytes(&self, state: &State) -> u64 {
        state.ring.heap_bytes()
    }

    fn most_heap_bytes(&self) -> u64 {
        self.most_entries * LogRing::BYTES_PER_ENTRY
    }
}

impl CarryUnits for SlidingLog {
    /// At the beginnings of their ticks: at the ends, units taken before might have left.
    fn used_units(&self, state: &State, at: Timestamp, note: &mut dyn FnMut(Timestamp, u64)) {
        let (mut through, _) = state.left(at);
        for entry in state.ring.entries().filter(|entry| entry.leaves > at) {
            let next = state.through(entry);
            let end_of_tick = entry.leaves.minus(self.window);
            note(
                end_of_tick.minus(Micros::from_micros(self.tick_us - 1)),
                next.saturating_sub(through),
            );
            through = next;
        }
    }

    fn ends(&self, since: Timestamp) -> Timestamp {
        self.leaves(since)
    }
}

impl Amend for SlidingLog {
    fn same_shape(&self, old: &Self) -> bool {
        (self.window, self.tick_us, self.layout) == (old.window, old.tick_us, old.layout)
    }
}

/// All units of one tick count as of its end, so a lease ends with its tick. Without a resolution a tick is one
/// microsecond, in which no lease can be used.
impl Lease for SlidingLog {
    fn lease_end(&self, _state: &State, at: Timestamp) -> Option<Timestamp> {
        (self.tick_us > 1).then(|| self.end_of_tick(at).plus(Micros::from_micros(1)))
    }
}

impl Pack for SlidingLog {}

/// The next round length: 1, 2 or 5 times a power of ten microseconds.
fn round_up(us: u64) -> Duration {
    let mut power = 1_u64;
    loop {
        if let Some(nice) = [1, 2, 5].map(|n| n * power).into_iter().find(|nice| *nice >= us) {
            return Duration::from_micros(nice);
        }
        power *= 10;
    }
}

#[cfg(test)]
mod looks;
