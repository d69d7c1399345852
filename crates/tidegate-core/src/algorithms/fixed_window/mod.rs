//! Fixed window: one counter, reset when the window ends.
//!
//! A window is known by its end. `script.lua` makes the same decisions in Redis.

use alloc::vec::Vec;

use crate::algorithm::{
    Amend, CarryUnits, Decide, HORIZON, Lease, Pack, Packing, Persist, Scripted, WORD_BITS, resized,
};
use crate::decision::Verdict;
use crate::error::RuleErrors;
use crate::field::Field;
use crate::past::{Past, Since};
use crate::script::Script;
use crate::spec::{Anchor, Spec};
use crate::time::{Micros, Timestamp};

/// N units per window; windows follow the epoch, or begin at the first unit after the last ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    max_debt: Option<u64>,
    window: Micros,
    anchor: Anchor,
    /// Bits left for the count in a word that holds the end of the window as well.
    count_bits: u32,
}

/// The end of the window of the last unit, and the units in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    ends: Timestamp,
    count: u64,
    last: Timestamp,
    past: Past,
}

impl FixedWindow {
    /// The end of the window that holds `at`, if no window is running.
    #[inline]
    fn end(&self, at: Timestamp) -> Timestamp {
        let passed = match self.anchor {
            Anchor::Epoch => at.as_micros() % self.window.as_micros(),
            Anchor::FirstRequest => 0,
        };
        at.plus(Micros::from_micros(self.window.as_micros() - passed))
    }

    /// Time until the running window ends; zero when it has ended.
    #[inline]
    const fn left(&self, state: &State, at: Timestamp) -> Micros {
        state.ends.since(at)
    }

    const fn largest_count(&self) -> u64 {
        (1 << self.count_bits) - 1
    }

    /// Units in the window that holds `at`.
    #[inline]
    fn count(&self, state: &State, at: Timestamp) -> u64 {
        if self.left(state, at).is_zero() { 0 } else { state.count }
    }
}

impl Decide for FixedWindow {
    type State = State;
    const FIELDS: &'static [Field] = &[Field::Anchor];

    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors> {
        let anchor = spec.anchor.unwrap_or_default();
        // The largest number that `pack` writes for the end of a window.
        let last_end = match anchor {
            Anchor::Epoch => Timestamp::MAX.as_micros() / window.as_micros() + 2,
            Anchor::FirstRequest => HORIZON.as_micros() + window.as_micros(),
        };
        let count_bits = WORD_BITS.saturating_sub(u64::BITS - last_end.leading_zeros());
        Ok(Self { limit, max_debt: spec.max_debt, window, anchor, count_bits })
    }

    /// No window is running before the first unit.
    fn fresh(&self, _now: Timestamp) -> State {
        State { ends: Timestamp::EPOCH, count: 0, last: Timestamp::EPOCH, past: Past::NONE }
    }

    #[inline]
    fn decide(&self, state: &State, at: Timestamp, cost: u64) -> Verdict {
        if cost > self.limit {
            Verdict::Never
        } else if self.count(state, at) <= self.limit - cost {
            Verdict::Allow
        } else {
            Verdict::Deny
        }
    }

    #[inline]
    fn take(&self, state: &mut State, at: Timestamp, cost: u64) {
        // Before the end moves: the count of a window that has ended is 0.
        let count = self.count(state, at);
        if self.left(state, at).is_zero() {
            state.ends = self.end(at);
        }
        state.count = count.saturating_add(cost);
        state.last = at;
    }

    fn give_back(&self, state: &mut State, at: Timestamp, units: u64) {
        if !self.left(state, at).is_zero() {
            state.count = state.count.saturating_sub(units);
        }
    }

    /// Only the running window counts: the window of `since`, or a later window.
    fn give_back_since(&self, state: &mut State, at: Timestamp, units: u64, since: Since) -> u64 {
        let is_its = since.at >= state.ends.minus(self.window) && state.past.admits(since);
        if self.left(state, at).is_zero() || !is_its {
            return 0;
        }
        let given = units.min(state.count);
        state.count -= given;
        given
    }

    fn past<'s>(&self, state: &'s State) -> Option<&'s Past> {
        Some(&state.past)
    }

    fn past_mut<'s>(&self, state: &'s mut State) -> Option<&'s mut Past> {
        Some(&mut state.past)
    }

    fn window(&self) -> Micros {
        self.window
    }

    #[inline]
    fn last(&self, state: &State) -> Timestamp {
        state.last
    }

    fn rewind(&self, state: &mut State, to: Timestamp) {
        state.ends = match self.anchor {
            // The count goes on in the window that holds `to`.
            Anchor::Epoch => self.end(to),
            // The window moves as a whole, so that it has as long to run as before.
            Anchor::FirstRequest => state.ends.minus(state.last.since(to)),
        };
        state.last = to;
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn max_debt(&self) -> Option<u64> {
        self.max_debt
    }

    fn remaining(&self, state: &State, at: Timestamp) -> u64 {
        self.limit.saturating_sub(self.count(state, at))
    }

    fn retry_after(&self, state: &State, at: Timestamp, _cost: u64) -> Micros {
        self.left(state, at)
    }

    /// A window that begins with its first unit runs until it ends, even if nothing is used in it, because the next
    /// unit opens no other.
    fn reset_after(&self, state: &State, at: Timestamp) -> Micros {
        match (state.count, self.anchor) {
            (0, Anchor::Epoch) => Micros::ZERO,
            _ => self.left(state, at),
        }
    }

    /// All units of one window at its end and all of the next at its beginning. If a window begins
    /// with its first unit, the next begins W or more later, so no interval of length W holds that
    /// unit and one of the next.
    fn bound(&self, _largest_cost: u64) -> u64 {
        match self.anchor {
            Anchor::Epoch => 2 * self.limit,
            Anchor::FirstRequest => (2 * self.limit).saturating_sub(1),
        }
    }

    fn used(&self, state: &State, at: Timestamp) -> u64 {
        self.count(state, at)
    }
}

impl Amend for FixedWindow {
    fn same_shape(&self, old: &Self) -> bool {
        (self.window, self.anchor) == (old.window, old.anchor)
    }
}

/// All units of one window count alike, so a lease ends with its window. Two leases of windows that begin with their
/// first units can be spent at the end of the first and the beginning of the second, so an interval of length W then
/// admits up to 2N.
impl Lease for FixedWindow {
    fn lease_end(&self, state: &State, at: Timestamp) -> Option<Timestamp> {
        Some(if self.left(state, at).is_zero() { self.end(at) } else { state.ends })
    }
}

impl CarryUnits for FixedWindow {
    const UNITS_HAVE_TIMES: bool = false;

    /// At the beginning of their window.
    fn used_units(&self, state: &State, at: Timestamp, note: &mut dyn FnMut(Timestamp, u64)) {
        note(state.ends.minus(self.window), self.count(state, at));
    }
}

impl Pack for FixedWindow {
    /// At a limit of 0 the used units were taken under another limit, so their number has no bound.
    fn packing(&self) -> Packing {
        // At least one bit more than the limit has, for a debt.
        if self.limit > 0 && u64::BITS - self.limit.leading_zeros() < self.count_bits {
            Packing::One
        } else {
            Packing::Two
        }
    }

    /// Packs the end and then the count. The end is in windows since the epoch, or in microseconds
    /// since `base` if a window can begin at any time.
    #[inline]
    fn pack<const WORDS: usize>(&self, base: Timestamp, state: &State) -> [u64; WORDS] {
        let end = match self.anchor {
            // Without units such a window decides like a fresh state, and all zeros are an idle state.
            Anchor::Epoch if state.count == 0 => 0,
            Anchor::Epoch => state.ends.as_micros() / self.window.as_micros(),
            Anchor::FirstRequest => state.ends.since(base).as_micros(),
        };
        resized(match self.packing() {
            Packing::One => [end << self.count_bits | state.count.min(self.largest_count()), 0],
            _ => [end, state.count],
        })
    }

    #[inline]
    fn unpack<const WORDS: usize>(&self, base: Timestamp, words: [u64; WORDS]) -> State {
        let words: [u64; 2] = resized(words);
        let (end, count) = match self.packing() {
            Packing::One => (words[0] >> self.count_bits, words[0] & self.largest_count()),
            _ => (words[0], words[1]),
        };
        let ends = match self.anchor {
            Anchor::Epoch => Timestamp::EPOCH
                .plus(Micros::from_micros(end.saturating_mul(self.window.as_micros()))),
            Anchor::FirstRequest => base.plus(Micros::from_micros(end)),
        };
        // The time of the last unit is not packed: under a clock that never steps back it is not needed.
        State { ends, count, last: Timestamp::EPOCH, past: Past::NONE }
    }
}

impl Scripted for FixedWindow {
    const SCRIPT: Script = Script {
        kind: 3,
        name: "fixed_window",
        text: include_str!("script.lua"),
        lease: "",
        state_integers: 3,
    };

    fn parameters(&self) -> [u64; 4] {
        let from_first = u64::from(self.anchor == Anchor::FirstRequest);
        [self.limit, self.window.as_micros(), from_first, 0]
    }

    fn restore_fields(_kind: u8, [_, _, from_first, _]: [u64; 4], spec: &mut Spec) {
        spec.anchor = (from_first > 0).then_some(Anchor::FirstRequest);
    }

    fn script_args(&self, _cost: u64) -> Vec<i64> {
        let from_first = i64::from(self.anchor == Anchor::FirstRequest);
        [self.limit.cast_signed(), from_first].to_vec()
    }

    fn decode_state(&self, numbers: &[u64]) -> Option<State> {
        let [ends, count, last] = *numbers else { return None };
        let ends = Timestamp::EPOCH.plus(Micros::from_micros(ends));
        Some(State { ends, count, last: Timestamp::from_micros(last), past: Past::NONE })
    }
}

impl Persist for FixedWindow {
    fn persist(&self, state: &State, last: Timestamp, numbers: &mut Vec<u64>) {
        numbers.extend([state.ends.as_micros(), state.count, last.as_micros()]);
    }
}
