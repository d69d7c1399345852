//! The algorithm of a rule with a limit of 0 and no window. It refuses every cost of one or more. Units carried over
//! from an earlier rule, or taken by a settled reservation, stay used until they are given back or the limiter is reset.

use alloc::vec::Vec;

use crate::algorithm::{
    Amend, CarryUnits, Decide, Lease, Pack, Packing, Persist, Scripted, WORD_BITS, resized,
};
use crate::decision::Verdict;
use crate::error::RuleErrors;
use crate::field::Field;
use crate::past::{Past, Since};
use crate::script::Script;
use crate::spec::{MAX_WINDOW, Spec};
use crate::time::{Micros, Timestamp};

/// Admits nothing, and keeps used units while it is in force, so that a change of rules gives no
/// credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    max_debt: Option<u64>,
}

/// Units that never leave, and the time of the last unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    used: u64,
    last: Timestamp,
    past: Past,
}

/// The maximum number of units that a packed word holds; larger debts stop there.
const LARGEST_WORD: u64 = (1 << WORD_BITS) - 1;

impl Decide for Closed {
    type State = State;
    const FIELDS: &'static [Field] = &[];

    fn build(spec: &Spec, _limit: u64, _window: Micros) -> Result<Self, RuleErrors> {
        Ok(Self { max_debt: spec.max_debt })
    }

    fn fresh(&self, _now: Timestamp) -> State {
        State { used: 0, last: Timestamp::EPOCH, past: Past::NONE }
    }

    fn decide(&self, _state: &State, _at: Timestamp, _cost: u64) -> Verdict {
        // A cost of 0, which is admitted, never reaches an algorithm.
        Verdict::Never
    }

    /// Only usage that is reported, or that a settlement adds.
    fn take(&self, state: &mut State, at: Timestamp, cost: u64) {
        (state.used, state.last) = (state.used.saturating_add(cost), at);
    }

    fn give_back(&self, state: &mut State, _at: Timestamp, units: u64) {
        state.used = state.used.saturating_sub(units);
    }

    fn give_back_since(&self, state: &mut State, _at: Timestamp, units: u64, since: Since) -> u64 {
        let given = if state.past.admits(since) { units.min(state.used) } else { 0 };
        state.used -= given;
        given
    }

    fn past<'s>(&self, state: &'s State) -> Option<&'s Past> {
        Some(&state.past)
    }

    fn past_mut<'s>(&self, state: &'s mut State) -> Option<&'s mut Past> {
        Some(&mut state.past)
    }

    fn counts_for(&self, _units: u64) -> Micros {
        Micros::MAX
    }

    /// There is no window, so the longest possible one.
    fn window(&self) -> Micros {
        MAX_WINDOW.into()
    }

    fn last(&self, state: &State) -> Timestamp {
        state.last
    }

    fn rewind(&self, state: &mut State, to: Timestamp) {
        state.last = to;
    }

    fn limit(&self) -> u64 {
        0
    }

    fn max_debt(&self) -> Option<u64> {
        self.max_debt
    }

    fn remaining(&self, _state: &State, _at: Timestamp) -> u64 {
        0
    }

    fn retry_after(&self, _state: &State, _at: Timestamp, _cost: u64) -> Micros {
        Micros::MAX
    }

    fn reset_after(&self, state: &State, at: Timestamp) -> Micros {
        if state.used == 0 { Micros::ZERO } else { at.until_the_last() }
    }

    fn bound(&self, _largest_cost: u64) -> u64 {
        0
    }

    fn used(&self, state: &State, _at: Timestamp) -> u64 {
        state.used
    }
}

impl Amend for Closed {
    fn same_shape(&self, _old: &Self) -> bool {
        // Only `max_debt` can differ, which changes no state.
        true
    }
}

/// There is nothing to lease.
impl Lease for Closed {}

impl CarryUnits for Closed {
    fn used_units(&self, state: &State, _at: Timestamp, note: &mut dyn FnMut(Timestamp, u64)) {
        note(state.last, state.used);
    }
}

impl Pack for Closed {
    fn packing(&self) -> Packing {
        Packing::One
    }

    fn pack<const WORDS: usize>(&self, _base: Timestamp, state: &State) -> [u64; WORDS] {
        resized([state.used.min(LARGEST_WORD)])
    }

    fn unpack<const WORDS: usize>(&self, _base: Timestamp, words: [u64; WORDS]) -> State {
        let [used] = resized(words);
        // The time of the last unit is not packed: under a clock that never steps back it is not needed.
        State { used, last: Timestamp::EPOCH, past: Past::NONE }
    }
}

impl Scripted for Closed {
    const SCRIPT: Script = Script {
        kind: 7,
        name: "closed",
        text: include_str!("closed.lua"),
        lease: "",
        state_integers: 2,
    };

    fn parameters(&self) -> [u64; 4] {
        [0; 4]
    }

    fn script_args(&self, _cost: u64) -> Vec<i64> {
        Vec::new()
    }

    fn decode_state(&self, numbers: &[u64]) -> Option<State> {
        let [used, last] = *numbers else { return None };
        Some(State { used, last: Timestamp::from_micros(last), past: Past::NONE })
    }
}

impl Persist for Closed {
    fn persist(&self, state: &State, last: Timestamp, numbers: &mut Vec<u64>) {
        numbers.extend([state.used, last.as_micros()]);
    }
}
