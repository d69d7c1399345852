//! Sliding counter: this window's count, and the previous one weighted by the part of it that the
//! window still covers.

mod eased;

use alloc::vec::Vec;

use crate::algorithm::{
    CarryUnits, Decide, Lease, Pack, Packing, Persist, Scripted, WORD_BITS, resized,
};
use crate::decision::Verdict;
use crate::error::RuleErrors;
use crate::field::Field;
use crate::past::{Excess, Past, Since};
use crate::script::Script;
use crate::spec::Spec;
use crate::time::{Micros, Timestamp};

/// Admits if previous x (share of the previous window still inside) + current + cost <= N, compared
/// exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    limit: u64,
    max_debt: Option<u64>,
    window: Micros,
    packing: Packing,
    /// Bits of either count as it is packed.
    count_bits: u32,
}

/// The index of the window that the last unit fell into, its count, and the count of the previous window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    index: u64,
    current: u64,
    previous: u64,
    last: Timestamp,
    past: Past,
}

/// The two counts as they stand at an instant, and how much of the previous window is inside.
#[derive(Clone, Copy)]
struct View {
    current: u64,
    previous: u64,
    overlap_us: u64,
}

impl SlidingCounter {
    const fn largest_count(&self) -> u64 {
        (1 << self.count_bits) - 1
    }

    /// `at`, or the start of the state's window where that is later: a packed state does not keep
    /// the time of its last unit, and must not go back to an earlier window for a reading that
    /// arrives late.
    #[inline]
    fn not_before(&self, state: &State, at: Timestamp) -> Timestamp {
        at.max(self.start(state.index))
    }

    /// The instant at which the window with this index begins.
    fn start(&self, index: u64) -> Timestamp {
        let start_us = index.saturating_mul(self.window.as_micros());
        Timestamp::EPOCH.plus(Micros::from_micros(start_us))
    }

    #[inline]
    const fn number(&self, at: Timestamp) -> u64 {
        at.as_micros() / self.window.as_micros()
    }

    /// The counts of all units that were taken.
    #[inline]
    fn whole(&self, state: &State, at: Timestamp) -> View {
        let at = self.not_before(state, at);
        // The state's window is the running window, the window before that, or too old to count.
        let (current, previous) = match self.number(at).saturating_sub(state.index) {
            0 => (state.current, state.previous),
            1 => (0, state.current),
            _ => (0, 0),
        };
        let elapsed = at.as_micros() % self.window.as_micros();
        View { current, previous, overlap_us: self.window.as_micros() - elapsed }
    }

    /// The counts that decide: without units that make no caller wait.
    #[inline]
    fn view(&self, state: &State, at: Timestamp) -> View {
        let mut view = self.whole(state, at);
        if let Some(excess) = state.past.excess() {
            // A window counts for as long as it lasts, and then once more as the previous window.
            let left = excess.until.since(self.not_before(state, at));
            if left > self.window {
                view.current = view.current.saturating_sub(excess.units);
            } else if !left.is_zero() {
                view.previous = view.previous.saturating_sub(excess.units);
            }
        }
        view
    }

    /// The previous window's units that are still inside, rounded up.
    #[inline]
    fn inside(&self, view: &View) -> u64 {
        let weighted = u128::from(view.previous) * u128::from(view.overlap_us);
        u64::try_from(weighted.div_ceil(u128::from(self.window.as_micros()))).unwrap_or(u64::MAX)
    }

    /// The longest overlap with which `counted` units of the previous window leave room for `free`.
    fn overlap_for(&self, counted: u64, free: u64) -> u64 {
        if counted <= free {
            return self.window.as_micros();
        }
        // Rounded down, so that the wait for it is rounded up.
        let overlap = u128::from(free) * u128::from(self.window.as_micros()) / u128::from(counted);
        u64::try_from(overlap).unwrap_or(u64::MAX)
    }
}

impl Decide for SlidingCounter {
    type State = State;
    const FIELDS: &'static [Field] = &[];

    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors> {
        let last = Timestamp::MAX.as_micros() / window.as_micros();
        // Both counts share the bits that the number of the last window leaves.
        let count_bits = WORD_BITS.saturating_sub(u64::BITS - last.leading_zeros()) / 2;
        // At least one bit more than the limit has, for a debt. At a limit of 0 the used units were taken under another
        // limit, so their number has no bound.
        let (packing, count_bits) = if limit > 0 && u64::BITS - limit.leading_zeros() < count_bits {
            (Packing::One, count_bits)
        } else {
            (Packing::Two, u32::BITS)
        };
        Ok(Self { limit, max_debt: spec.max_debt, window, packing, count_bits })
    }

    fn fresh(&self, _now: Timestamp) -> State {
        State { index: 0, current: 0, previous: 0, last: Timestamp::EPOCH, past: Past::NONE }
    }

    #[inline]
    fn decide(&self, state: &State, at: Timestamp, cost: u64) -> Verdict {
        if cost > self.limit {
            return Verdict::Never;
        }
        let view = self.view(state, at);
        let Some(free) = (self.limit - cost).checked_sub(view.current) else {
            return Verdict::Deny;
        };
        // Compared as products, because the quotient would be rounded.
        let weighted = u128::from(view.previous) * u128::from(view.overlap_us);
        if weighted <= u128::from(free) * u128::from(self.window.as_micros()) {
            Verdict::Allow
        } else {
            Verdict::Deny
        }
    }

    #[inline]
    fn take(&self, state: &mut State, at: Timestamp, cost: u64) {
        let at = self.not_before(state, at);
        // All units go on counting, also those that make no caller wait.
        let View { current, previous, .. } = self.whole(state, at);
        state.index = self.number(at);
        state.last = at;
        state.current = current.saturating_add(cost);
        state.previous = previous;
        state.past.counted(at);
    }

    /// Gives back this window's units first, because units of the previous window weigh less.
    fn give_back(&self, state: &mut State, at: Timestamp, units: u64) {
        match self.number(at).saturating_sub(state.index) {
            0 => {
                let given = self.lower(state, 0, units, None);
                self.lower(state, 1, units - given, None);
            }
            1 => {
                // The state's window is the previous window by now, and its own previous window is too old to count.
                self.lower(state, 0, units, None);
            }
            _ => {}
        }
    }

    /// Lowers the count of the window of `since`, if that is the running or the previous window.
    fn give_back_since(&self, state: &mut State, at: Timestamp, units: u64, since: Since) -> u64 {
        let number = self.number(self.not_before(state, at));
        // Units of older windows weigh nothing any more.
        let of_take = self.number(since.at);
        if of_take + 1 < number || !state.past.admits(since) {
            return 0;
        }
        match state.index.checked_sub(of_take) {
            // 0 is the state's own window. It may be the running window, or the window before that.
            Some(before @ 0..=1) => self.lower(state, before, units, Some(since.at)),
            _ => 0,
        }
    }

    fn past<'s>(&self, state: &'s State) -> Option<&'s Past> {
        Some(&state.past)
    }

    fn past_mut<'s>(&self, state: &'s mut State) -> Option<&'s mut Past> {
        Some(&mut state.past)
    }

    fn counts_for(&self, _units: u64) -> Micros {
        self.window.plus(self.window)
    }

    fn window(&self) -> Micros {
        self.window
    }

    #[inline]
    fn last(&self, state: &State) -> Timestamp {
        state.last
    }

    fn rewind(&self, state: &mut State, to: Timestamp) {
        let windows = self.number(state.last) - self.number(to);
        state.index = state.index.saturating_sub(windows);
        state.last = to;
        if let Some(excess) = state.past.excess() {
            // The end of a window names it, so it moves by the same number of whole windows as the state.
            let until = excess.until.minus(self.start(windows).since(Timestamp::EPOCH));
            state.past.exceed(Some(Excess { cut: excess.cut.min(to), until, ..*excess }));
        }
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn max_debt(&self) -> Option<u64> {
        self.max_debt
    }

    fn remaining(&self, state: &State, at: Timestamp) -> u64 {
        let view = self.view(state, at);
        self.limit.saturating_sub(view.current).saturating_sub(self.inside(&view))
    }

    /// Without arrivals the estimate only falls: first as the previous window slides out, then as
    /// this window does. A reading from before this window also waits for its start.
    fn retry_after(&self, state: &State, at: Timestamp, cost: u64) -> Micros {
        let view = self.view(state, at);
        let free = self.limit.saturating_sub(cost);
        let wait = match free.checked_sub(view.current) {
            Some(free) => view.overlap_us.saturating_sub(self.overlap_for(view.previous, free)),
            // This window alone is too full: it has to end, and then to slide out in part.
            None => {
                let slid_out = self.window.as_micros() - self.overlap_for(view.current, free);
                view.overlap_us + slid_out
            }
        };
        Micros::from_micros(wait).plus(self.not_before(state, at).since(at))
    }

    fn reset_after(&self, state: &State, at: Timestamp) -> Micros {
        let view = self.view(state, at);
        let wait = match (view.current, view.previous) {
            (0, 0) => return Micros::ZERO,
            (0, _) => view.overlap_us,
            _ => view.overlap_us + self.window.as_micros(),
        };
        Micros::from_micros(wait).plus(self.not_before(state, at).since(at))
    }

    /// If an interval of length W begins with N units, a share of them counts until it ends: at most N-1 more fit.
    fn bound(&self, _largest_cost: u64) -> u64 {
        (2 * self.limit).saturating_sub(1)
    }

    fn used(&self, state: &State, at: Timestamp) -> u64 {
        let view = self.view(state, at);
        view.current.saturating_add(self.inside(&view))
    }
}

/// All units of one window count alike, so a lease ends with its window.
impl Lease for SlidingCounter {
    fn lease_end(&self, state: &State, at: Timestamp) -> Option<Timestamp> {
        let number = self.number(self.not_before(state, at));
        Some(self.start(number + 1))
    }
}

impl Pack for SlidingCounter {
    fn packing(&self) -> Packing {
        self.packing
    }

    /// The number of the window, then its count, then the count of the previous window.
    #[inline]
    fn pack<const WORDS: usize>(&self, _base: Timestamp, state: &State) -> [u64; WORDS] {
        let bits = self.count_bits;
        let most = self.largest_count();
        let counts = state.current.min(most) << bits | state.previous.min(most);
        resized(match (counts, self.packing) {
            // Without units the window does not matter, and all zeros are an idle state.
            (0, _) => [0; 2],
            (_, Packing::One) => [state.index << (2 * bits) | counts, 0],
            _ => [state.index, counts],
        })
    }

    #[inline]
    fn unpack<const WORDS: usize>(&self, _base: Timestamp, words: [u64; WORDS]) -> State {
        let words: [u64; 2] = resized(words);
        let bits = self.count_bits;
        let most = self.largest_count();
        let (index, counts) = match self.packing {
            Packing::One => (words[0] >> (2 * bits), words[0]),
            _ => (words[0], words[1]),
        };
        let current = counts >> bits & most;
        let previous = counts & most;
        State { index, current, previous, last: Timestamp::EPOCH, past: Past::NONE }
    }
}

impl CarryUnits for SlidingCounter {
    /// At the beginnings of both windows.
    fn used_units(&self, state: &State, at: Timestamp, note: &mut dyn FnMut(Timestamp, u64)) {
        let View { current, previous, .. } = self.view(state, at);
        let index = self.number(self.not_before(state, at));
        note(self.start(index.saturating_sub(1)), previous);
        note(self.start(index), current);
    }
}

impl Scripted for SlidingCounter {
    const SCRIPT: Script = Script {
        kind: 4,
        name: "sliding_counter",
        text: concat!(include_str!("../../muldiv.lua"), include_str!("script.lua")),
        lease: "",
        state_integers: 4,
    };

    fn parameters(&self) -> [u64; 4] {
        [self.limit, self.window.as_micros(), 0, 0]
    }

    fn script_args(&self, _cost: u64) -> Vec<i64> {
        [self.limit.cast_signed()].to_vec()
    }

    fn decode_state(&self, numbers: &[u64]) -> Option<State> {
        let [index, current, previous, last, ..] = *numbers else { return None };
        let last = Timestamp::from_micros(last);
        Some(State { index, current, previous, last, past: Past::NONE })
    }
}

impl Persist for SlidingCounter {
    fn persist(&self, state: &State, last: Timestamp, numbers: &mut Vec<u64>) {
        numbers.extend([state.index, state.current, state.previous, last.as_micros()]);
        if let Some(excess) = state.past.excess() {
            numbers.extend([excess.until.as_micros(), excess.units, excess.caused]);
        }
    }

    fn restore(&self, numbers: &[u64]) -> Option<State> {
        let (counts, excess) = numbers.split_at_checked(4)?;
        let mut state = self.decode_state(counts)?;
        match *excess {
            [] => {}
            [until_us, units, caused] => {
                let until = Timestamp::EPOCH.plus(Micros::from_micros(until_us));
                // The time of the cut is not in the numbers; the time of the last unit stands for it.
                state.past.exceed(Some(Excess { units, cut: state.last, caused, until }));
            }
            _ => return None,
        }
        Some(state)
    }
}
