//! Sliding log: the time of every admitted unit, so that no window of length W holds more than N.

mod ring;

use crate::algorithm::Room;
use crate::decision::Verdict;
use crate::error::{RuleError, RuleErrors};
use crate::rule::{DEFAULT_MAX_MEMORY, Spec, Word};
use crate::time::{Micros, Timestamp};
use ring::{Entry, Ring};

/// At most N units in every half-open window `(t-W, t]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    limit: u64,
    window: Micros,
    tick_us: u64,
    most_entries: u64,
}

/// The units admitted, one entry for all of one tick, oldest first.
///
/// Entries carry running totals, which may wrap; `gone` is the total before the first unit still
/// held. So entry by entry `total - gone` tells how many of the units held are there *through* it,
/// and the u-th oldest unit is in the first entry for which that is at least u.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    ring: Ring,
    gone: u64,
    last: Timestamp,
}

impl State {
    /// Units held, from the oldest through those of an entry.
    const fn through(&self, entry: &Entry) -> u64 {
        entry.total.wrapping_sub(self.gone)
    }

    /// Units held: those that count, and some that have left but were not dropped yet.
    fn held(&self) -> u64 {
        self.ring.back().map_or(0, |newest| self.through(newest))
    }

    /// When the `nth` oldest unit held leaves (1 is the oldest). Constant time for the oldest entry,
    /// which is all that a cost of 1 asks for; a binary search beyond it.
    fn leaves(&self, nth: u64) -> Option<Timestamp> {
        match self.ring.front() {
            Some(oldest) if nth <= self.through(oldest) => Some(oldest.leaves),
            _ => {
                let found = self.ring.first(|entry| self.through(entry) >= nth);
                self.ring.get(found).map(|entry| entry.leaves)
            }
        }
    }

    /// Units held that have left by `at`, and the number of their entries: a binary search.
    fn left(&self, at: Timestamp) -> (u64, usize) {
        let entries = self.ring.first(|entry| entry.leaves > at);
        let newest = entries.checked_sub(1).and_then(|index| self.ring.get(index));
        (newest.map_or(0, |entry| self.through(entry)), entries)
    }

    /// Whether all units of the newest entry were given back.
    fn newest_is_empty(&self) -> bool {
        let before = self.ring.len().checked_sub(2).and_then(|index| self.ring.get(index));
        let through = before.map_or(0, |entry| self.through(entry));
        self.ring.back().is_some_and(|newest| self.through(newest) == through)
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.ring.pop_front() {
            self.gone = oldest.total;
        }
    }
}

/// Most units held at once: what is taken beyond that, in debt, is not counted.
const MOST_HELD: u64 = 1 << 62;

impl SlidingLog {
    /// A unit counts as of the last microsecond of its tick, so that no window ever exceeds N.
    const fn end_of_tick(&self, at: Timestamp) -> Timestamp {
        let into = at.as_micros() % self.tick_us;
        at.plus(Micros::from_micros(self.tick_us - 1 - into))
    }

    /// When a unit admitted at `at` counts no more.
    const fn leaves(&self, at: Timestamp) -> Timestamp {
        self.end_of_tick(at).plus(self.window)
    }

    fn wait(leaves: Option<Timestamp>, at: Timestamp) -> Micros {
        leaves.map_or(Micros::ZERO, |leaves| leaves.since(at))
    }

    /// Units that count at `at`; for figures only.
    fn count(state: &State, at: Timestamp) -> u64 {
        state.held() - state.left(at).0
    }

    /// How many of the oldest units must have left for `cost` more to fit.
    fn over(&self, state: &State, cost: u64) -> u64 {
        state.held().saturating_add(cost).saturating_sub(self.limit)
    }

    /// Drops the oldest entry if it has left. Twice for each entry added, the ring never holds more
    /// entries than can count at once, and nothing is ever swept.
    fn drop_one_that_left(&self, state: &mut State, at: Timestamp) {
        if state.ring.front().is_some_and(|oldest| oldest.leaves <= at) {
            state.drop_oldest();
        }
    }
}

impl Room for SlidingLog {
    type State = State;
    const WORDS: &'static [Word] = &[Word::Resolution, Word::MaxMemory];

    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors> {
        let tick_us = spec.resolution.map_or(1, Micros::as_micros);
        let most_entries = limit.min(window.as_micros().div_ceil(tick_us) + 1);
        let room = Self { limit, window, tick_us, most_entries };
        let max_memory = spec.max_memory.unwrap_or(DEFAULT_MAX_MEMORY);
        let bytes = room.most_heap_bytes();
        if bytes > max_memory {
            let entries = (max_memory / Ring::BYTES_PER_ENTRY).saturating_sub(1).max(1);
            let resolution = round_up(window.as_micros().div_ceil(entries));
            return Err(RuleError::TooLarge { bytes, max_memory, resolution }.into());
        }
        Ok(room)
    }

    fn fresh(&self, _now: Timestamp) -> State {
        State { ring: Ring::for_entries(self.most_entries), gone: 0, last: Timestamp::EPOCH }
    }

    /// Admitted when the unit that would have to make room has left: the (held + cost - N)-th oldest.
    fn decide(&self, state: &State, at: Timestamp, cost: u64) -> Verdict {
        if cost > self.limit {
            return Verdict::Never;
        }
        let over = self.over(state, cost);
        match state.leaves(over) {
            Some(leaves) if over > 0 && leaves > at => Verdict::Deny,
            _ => Verdict::Allow,
        }
    }

    fn take(&self, state: &mut State, at: Timestamp, cost: u64) {
        self.drop_one_that_left(state, at);
        self.drop_one_that_left(state, at);
        // Entries stay in order also where the clock went back to the middle of a tick.
        let leaves =
            state.ring.back().map_or(Timestamp::EPOCH, |newest| newest.leaves).max(self.leaves(at));
        let held = state.held();
        let total = state.gone.wrapping_add(held.saturating_add(cost).min(MOST_HELD.max(held)));
        state.ring.record(Entry { leaves, total });
        state.last = at;
    }

    /// The oldest units that count are given back. Those that have left keep their places, for a
    /// clock that goes backward a little.
    fn give_back(&self, state: &mut State, at: Timestamp, units: u64) {
        let (left, entries_left) = state.left(at);
        let units = units.min(state.held() - left);
        state.gone = state.gone.wrapping_add(units);
        let gone = state.gone;
        for (index, entry) in state.ring.entries_mut().enumerate() {
            if index < entries_left {
                entry.total = entry.total.wrapping_add(units);
            } else if (entry.total.wrapping_sub(gone) as i64) < left as i64 {
                entry.total = gone.wrapping_add(left);
            } else {
                break;
            }
        }
        while state.newest_is_empty() {
            state.ring.pop_back();
        }
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

    fn remaining(&self, state: &State, at: Timestamp) -> u64 {
        self.limit.saturating_sub(Self::count(state, at))
    }

    fn retry_after(&self, state: &State, at: Timestamp, cost: u64) -> Micros {
        let over = self.over(state, cost);
        Self::wait(state.leaves(over), at)
    }

    fn reset_after(&self, state: &State, at: Timestamp) -> Micros {
        Self::wait(state.ring.back().map(|newest| newest.leaves), at)
    }

    fn bound(&self, _largest_cost: u64) -> u64 {
        self.limit
    }

    fn used(&self, state: &State, at: Timestamp) -> u64 {
        Self::count(state, at)
    }

    fn same_shape(&self, old: &Self) -> bool {
        (self.window, self.tick_us) == (old.window, old.tick_us)
    }

    fn heap_bytes(&self, state: &State) -> u64 {
        state.ring.heap_bytes()
    }

    fn most_heap_bytes(&self) -> u64 {
        self.most_entries * Ring::BYTES_PER_ENTRY
    }
}

/// The next length a person would write: 1, 2 or 5 times a power of ten microseconds.
fn round_up(us: u64) -> Micros {
    let mut power = 1_u64;
    loop {
        if let Some(nice) = [1, 2, 5].map(|n| n * power).into_iter().find(|nice| *nice >= us) {
            return Micros::from_micros(nice);
        }
        power *= 10;
    }
}
