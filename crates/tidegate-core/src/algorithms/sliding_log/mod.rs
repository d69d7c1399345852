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
/// Entries carry running totals; `gone` is the total before the first unit still held, so that the
/// u-th oldest unit is the one that brings the total to `gone + u`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    ring: Ring,
    gone: u64,
    last: Timestamp,
}

impl State {
    /// Units held: those that count, and some that have left but were not dropped yet.
    fn held(&self) -> u64 {
        self.ring
            .back()
            .map_or(0, |newest| newest.total - self.gone)
    }

    /// When the `nth` oldest unit held was admitted (1 is the oldest). Constant time for the oldest
    /// entry, which is all that a cost of 1 asks for; a binary search beyond it.
    fn time_of(&self, nth: u64) -> Option<Timestamp> {
        let total = self.gone + nth;
        match self.ring.front() {
            Some(oldest) if total <= oldest.total => Some(oldest.at),
            _ => self
                .ring
                .get(self.ring.first(|entry| entry.total >= total))
                .map(|entry| entry.at),
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.ring.pop_front() {
            self.gone = oldest.total;
        }
    }
}

impl SlidingLog {
    /// A unit counts as of the last microsecond of its tick, so that no window ever exceeds N.
    fn end_of_tick(&self, at: Timestamp) -> Timestamp {
        let into = at.as_micros() % self.tick_us;
        at.plus(Micros::from_micros(self.tick_us - 1 - into))
    }

    /// When units admitted at `at` count no more.
    const fn leaves(&self, at: Timestamp) -> u64 {
        at.as_micros() + self.window.as_micros()
    }

    const fn has_left(&self, unit: Timestamp, at: Timestamp) -> bool {
        self.leaves(unit) <= at.as_micros()
    }

    fn wait(&self, unit: Option<Timestamp>, at: Timestamp) -> Micros {
        let leaves = unit.map_or(0, |unit| self.leaves(unit));
        Micros::from_micros(leaves.saturating_sub(at.as_micros()))
    }

    /// Units that count at `at`: a binary search, for figures only.
    fn count(&self, state: &State, at: Timestamp) -> u64 {
        match state.ring.first(|entry| !self.has_left(entry.at, at)) {
            0 => state.held(),
            counted => {
                let left = state
                    .ring
                    .get(counted - 1)
                    .map_or(state.gone, |entry| entry.total);
                state.held() + state.gone - left
            }
        }
    }

    /// Drops the oldest entry if it has left. Twice for each entry added, the ring never holds more
    /// entries than can count at once, and nothing is ever swept.
    fn drop_one_that_left(&self, state: &mut State, at: Timestamp) {
        if state
            .ring
            .front()
            .is_some_and(|oldest| self.has_left(oldest.at, at))
        {
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
        let room = Self {
            limit,
            window,
            tick_us,
            most_entries,
        };
        let max_memory = spec.max_memory.unwrap_or(DEFAULT_MAX_MEMORY);
        let bytes = room.most_heap_bytes();
        if bytes > max_memory {
            let entries = (max_memory / Ring::BYTES_PER_ENTRY)
                .saturating_sub(1)
                .max(1);
            let resolution = round_up(window.as_micros().div_ceil(entries));
            return Err(RuleError::TooLarge {
                bytes,
                max_memory,
                resolution,
            }
            .into());
        }
        Ok(room)
    }

    fn fresh(&self, now: Timestamp) -> State {
        State {
            ring: Ring::for_entries(self.most_entries),
            gone: 0,
            last: now,
        }
    }

    /// Admitted when the unit that would have to make room has left: the (held + cost - N)-th oldest.
    fn decide(&self, state: &State, at: Timestamp, cost: u64) -> Verdict {
        if cost > self.limit {
            return Verdict::Never;
        }
        let over = (state.held() + cost).saturating_sub(self.limit);
        match state.time_of(over) {
            Some(unit) if over > 0 && !self.has_left(unit, at) => Verdict::Deny,
            _ => Verdict::Allow,
        }
    }

    fn take(&self, state: &mut State, at: Timestamp, cost: u64) {
        self.drop_one_that_left(state, at);
        self.drop_one_that_left(state, at);
        let total = state.gone.saturating_add(state.held()).saturating_add(cost);
        state.ring.record(Entry {
            at: self.end_of_tick(at),
            total,
        });
        state.last = at;
    }

    fn give_back(&self, state: &mut State, at: Timestamp, units: u64) {
        let left = state.held() - self.count(state, at);
        state.gone += left + units.min(state.held() - left);
        while state
            .ring
            .front()
            .is_some_and(|oldest| oldest.total <= state.gone)
        {
            state.ring.pop_front();
        }
    }

    fn window(&self) -> Micros {
        self.window
    }

    fn last(&self, state: &State) -> Timestamp {
        state.last
    }

    fn rewind(&self, state: &mut State, to: Timestamp) {
        let step = self.end_of_tick(state.last).since(self.end_of_tick(to));
        state.ring.each_time(|at| at.minus(step));
        state.last = to;
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn remaining(&self, state: &State, at: Timestamp) -> u64 {
        self.limit.saturating_sub(self.count(state, at))
    }

    fn retry_after(&self, state: &State, at: Timestamp, cost: u64) -> Micros {
        let over = (state.held() + cost).saturating_sub(self.limit);
        self.wait(state.time_of(over), at)
    }

    fn reset_after(&self, state: &State, at: Timestamp) -> Micros {
        self.wait(state.ring.back().map(|newest| newest.at), at)
    }

    fn bound(&self, _largest_cost: u64) -> u64 {
        self.limit
    }

    fn used(&self, state: &State, at: Timestamp) -> u64 {
        self.count(state, at)
    }

    fn same_shape(&self, old: &Self) -> bool {
        (self.window, self.tick_us) == (old.window, old.tick_us)
    }

    fn most_heap_bytes(&self) -> u64 {
        self.most_entries * Ring::BYTES_PER_ENTRY
    }
}

/// The next length a person would write: 1, 2 or 5 times a power of ten microseconds.
fn round_up(us: u64) -> Micros {
    let mut power = 1_u64;
    loop {
        if let Some(nice) = [1, 2, 5]
            .map(|n| n * power)
            .into_iter()
            .find(|nice| *nice >= us)
        {
            return Micros::from_micros(nice);
        }
        power *= 10;
    }
}
