//! Concurrency: at most N units out at a time, each until its permit is returned or its life ends.
//!
//! A *permit* is the units that one request took; its *token* names it. `permits.rs` keeps the permits of a limiter,
//! and `script.lua` makes the same decisions in Redis.

mod permits;

use alloc::vec::Vec;

use crate::algorithm::{Amend, CarryUnits, Decide, Lease, Pack, Persist, Scripted};
use crate::decision::Verdict;
use crate::error::{RuleError, RuleErrors};
use crate::field::Field;
use crate::past::{Past, Since};
use crate::script::Script;
use crate::spec::{DEFAULT_MAX_MEMORY, MAX_MAX_MEMORY, Spec};
use crate::time::{Micros, Timestamp, Token};
use permits::{TakenPermit, TakenPermits};

/// N units at a time; a permit that is not returned or renewed for W ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    limit: u64,
    life: Micros,
}

/// The permits that are out, and some that have ended but were not dropped yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    permits: TakenPermits,
    /// When the last permit was taken or renewed.
    last: Timestamp,
    /// The token of the last permit, in microseconds; 0 before the first.
    token_us: u64,
}

/// A stored value: bytes in front of the permits, and bytes of a permit. `script.lua` describes the format.
const STORED_HEADER_BYTES: u64 = 57;
const STORED_PERMIT_BYTES: u64 = 20;

impl Concurrency {
    /// Units of permits that have neither ended nor been returned.
    fn out(state: &State, at: Timestamp) -> u64 {
        state.permits.units() - state.permits.ended(at).1
    }

    /// The number of units, of all in the list, that must have ended for `cost` more units to fit.
    fn must_end(&self, state: &State, cost: u64) -> u64 {
        state.permits.units().saturating_add(cost).saturating_sub(self.limit)
    }

    /// The end of a permit that is taken or renewed at `at`.
    fn end(&self, at: Timestamp) -> Timestamp {
        at.plus(self.life)
    }

    /// Makes the permit of units taken now, after dropping those that have ended: they are out at no later reading,
    /// because no reading counts as earlier than the units taken now. It leaves at the earliest when the units taken
    /// now do.
    fn permit(&self, state: &mut State, at: Timestamp, units: u64) -> TakenPermit {
        state.permits.drop_ended(at);
        state.last = at;
        // Larger than the last token even if the clock stepped back or two permits share a microsecond.
        state.token_us = state.token_us.saturating_add(1).max(at.as_micros()).min(Token::MAX_US);
        TakenPermit { ends: self.end(at), token_us: state.token_us, units }
    }
}

impl Decide for Concurrency {
    type State = State;
    const FIELDS: &'static [Field] = &[Field::MaxMemory];
    const HOLDS_PERMITS: bool = true;

    /// Makes room for a permit for each unit.
    fn fit(spec: &mut Spec, limit: u64, _window: Micros) {
        let bytes = limit.saturating_mul(TakenPermits::BYTES_PER_PERMIT);
        if bytes > DEFAULT_MAX_MEMORY {
            spec.max_memory = Some(bytes.min(MAX_MAX_MEMORY));
        }
    }

    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors> {
        let algorithm = Self { limit, life: window };
        let max_memory = spec.max_memory.unwrap_or(DEFAULT_MAX_MEMORY);
        let bytes = algorithm.most_heap_bytes();
        if bytes > max_memory {
            return Err(RuleError::TooLarge { bytes, max_memory, resolution: None }.into());
        }
        Ok(algorithm)
    }

    fn fresh(&self, _now: Timestamp) -> State {
        State { permits: TakenPermits::default(), last: Timestamp::EPOCH, token_us: 0 }
    }

    /// Admits if as many units have ended as are too many; permits that have not are not read.
    fn decide(&self, state: &State, at: Timestamp, cost: u64) -> Verdict {
        if cost > self.limit {
            return Verdict::Never;
        }
        match self.must_end(state, cost) {
            0 => Verdict::Allow,
            units if units <= state.permits.ended(at).1 => Verdict::Allow,
            _ => Verdict::Deny,
        }
    }

    fn take(&self, state: &mut State, at: Timestamp, cost: u64) {
        let permit = self.permit(state, at, cost);
        state.permits.make_place(self.limit);
        state.permits.insert(permit);
    }

    /// If no permit can be added, the units join the last permit to end, which can no longer be returned or renewed.
    fn take_in_place(&self, state: &mut State, at: Timestamp, cost: u64) {
        let permit = self.permit(state, at, cost);
        if state.permits.has_place() {
            state.permits.insert(permit);
        } else {
            state.permits.join_last(permit);
        }
    }

    fn has_place(&self, state: &State) -> bool {
        state.permits.has_place()
    }

    /// Gives back units of the permits that end first.
    fn give_back(&self, state: &mut State, at: Timestamp, units: u64) {
        // Not up to `at`: a slightly earlier reading still counts the permits that have ended since.
        state.permits.drop_ended(state.last);
        let mut left = units;
        let (first, _) = state.permits.ended(at);
        while left > 0 {
            // A permit that comes back in full is removed, so the next permit is at the same index.
            match state.permits.give_back(first, left) {
                0 => return,
                given => left -= given,
            }
        }
    }

    /// Only the token names a permit, so these are units of the permits that end first.
    fn give_back_since(&self, state: &mut State, at: Timestamp, units: u64, _since: Since) -> u64 {
        let before = Self::out(state, at);
        self.give_back(state, at, units);
        before - Self::out(state, at)
    }

    /// A permit is known by its token.
    fn past<'s>(&self, _state: &'s State) -> Option<&'s Past> {
        None
    }

    fn past_mut<'s>(&self, _state: &'s mut State) -> Option<&'s mut Past> {
        None
    }

    fn window(&self) -> Micros {
        self.life
    }

    fn last(&self, state: &State) -> Timestamp {
        state.last
    }

    /// The ends move; tokens stay as they are, and go on growing.
    fn rewind(&self, state: &mut State, to: Timestamp) {
        state.permits.move_back(state.last.since(to));
        state.last = to;
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    /// A settlement takes no unit.
    fn max_debt(&self) -> Option<u64> {
        None
    }

    fn remaining(&self, state: &State, at: Timestamp) -> u64 {
        self.limit.saturating_sub(Self::out(state, at))
    }

    fn retry_after(&self, state: &State, at: Timestamp, cost: u64) -> Micros {
        // Units that have ended are among the units that must end, and need no wait.
        let ends = state.permits.end_of_unit(self.must_end(state, cost));
        ends.map_or(Micros::ZERO, |ends| ends.since(at))
    }

    fn reset_after(&self, state: &State, at: Timestamp) -> Micros {
        state.permits.last_end().map_or(Micros::ZERO, |ends| ends.since(at))
    }

    fn used(&self, state: &State, at: Timestamp) -> u64 {
        Self::out(state, at)
    }

    /// A limiter whose last token is not in the past is kept for a life, because a fresh one could give it again.
    fn is_unused(&self, state: &State, at: Timestamp) -> bool {
        let ahead = state.token_us > 0 && at.as_micros() <= state.token_us;
        let could_give_it_again = ahead && at < self.end(state.last);
        self.reset_after(state, at).is_zero() && !could_give_it_again
    }

    /// The bound for permits that are never returned. A returned permit makes room for others at once.
    fn bound(&self, _largest_cost: u64) -> u64 {
        self.limit
    }

    fn heap_bytes(&self, state: &State) -> u64 {
        state.permits.heap_bytes()
    }

    fn most_heap_bytes(&self) -> u64 {
        self.limit.saturating_mul(TakenPermits::BYTES_PER_PERMIT)
    }

    fn token(&self, state: &State) -> Option<Token> {
        Token::from_micros(state.token_us)
    }

    fn return_permit(&self, state: &mut State, at: Timestamp, token: Token, units: u64) {
        // As in `give_back`: a slightly earlier reading still counts the permits that have ended since.
        state.permits.drop_ended(state.last);
        let Some(index) = state.permits.find(token.as_micros()) else { return };
        if state.permits.get(index).is_some_and(|permit| permit.ends > at) {
            state.permits.give_back(index, units);
        }
    }

    /// A renewed permit never ends sooner than before, even if the rule has a shorter life now.
    fn renew(&self, state: &mut State, at: Timestamp, token: Token) -> bool {
        let found = state.permits.find(token.as_micros());
        let permit = found.and_then(|index| Some((index, *state.permits.get(index)?)));
        let Some((index, permit)) = permit.filter(|(_, permit)| permit.ends > at) else {
            return false;
        };
        // Out and in again, because permits are in the order of their ends.
        state.permits.remove(index);
        state.permits.insert(TakenPermit { ends: permit.ends.max(self.end(at)), ..permit });
        state.last = at;
        true
    }
}

impl Amend for Concurrency {
    /// Permits that are out keep their units, ends and tokens under any other limit and life.
    fn same_shape(&self, _old: &Self) -> bool {
        true
    }
}

/// A unit is out at one place at a time, so none is taken ahead.
impl Lease for Concurrency {}

impl CarryUnits for Concurrency {
    /// A life before they end. Units of a permit that was never renewed get the token that it had.
    fn used_units(&self, state: &State, at: Timestamp, note: &mut dyn FnMut(Timestamp, u64)) {
        for permit in state.permits.iter().filter(|permit| permit.ends > at) {
            note(permit.ends.minus(self.life), permit.units);
        }
    }
}

impl Pack for Concurrency {}

impl Scripted for Concurrency {
    const SCRIPT: Script = Script {
        kind: 10,
        name: "concurrency",
        text: include_str!("script.lua"),
        state_integers: 6,
        lease: "",
    };
    const REPLY_IS_WHOLE: bool = false;

    fn parameters(&self) -> [u64; 4] {
        [self.limit, self.life.as_micros(), 0, 0]
    }

    /// The memory was checked when the rule was built.
    fn restore_fields(_kind: u8, _parameters: [u64; 4], spec: &mut Spec) {
        spec.max_memory = Some(MAX_MAX_MEMORY);
    }

    fn most_stored_bytes(&self) -> u64 {
        STORED_HEADER_BYTES.saturating_add(STORED_PERMIT_BYTES.saturating_mul(self.limit))
    }

    /// The limit, and a 0 in the place of a permit's token: the store writes the token there.
    fn script_args(&self, _cost: u64) -> Vec<i64> {
        [self.limit.cast_signed(), 0].to_vec()
    }

    /// A script returns a digest in place of its permits: a state of two permits from which the same values follow. The
    /// first holds the units that must end before the cost fits, and ends with the last of them. The second holds the
    /// other units.
    fn decode_state(&self, numbers: &[u64]) -> Option<State> {
        let [out, must_end, must_end_by_us, last_ends_us, token_us, last] = *numbers else {
            return None;
        };
        let mut permits = TakenPermits::default();
        // Numbers from a store are not trusted: the difference below must not wrap.
        let must_end = must_end.min(out);
        for (units, ends_us) in [(must_end, must_end_by_us), (out - must_end, last_ends_us)] {
            if units > 0 {
                let ends = Timestamp::EPOCH.plus(Micros::from_micros(ends_us));
                permits.insert(TakenPermit { ends, token_us: 0, units });
            }
        }
        Some(State { permits, last: Timestamp::from_micros(last), token_us })
    }
}

impl Persist for Concurrency {
    /// The time and the token of the last permit, then of each permit when it ends, its token and its units.
    fn persist(&self, state: &State, last: Timestamp, numbers: &mut Vec<u64>) {
        numbers.extend([last.as_micros(), state.token_us]);
        for permit in state.permits.iter() {
            numbers.extend([permit.ends.as_micros(), permit.token_us, permit.units]);
        }
    }

    fn restore(&self, numbers: &[u64]) -> Option<State> {
        let ([last, token_us], rest) = numbers.split_first_chunk()?;
        let (all, []) = rest.as_chunks() else { return None };
        let mut permits = TakenPermits::default();
        for [ends_us, token_us, units] in all {
            let ends = Timestamp::EPOCH.plus(Micros::from_micros(*ends_us));
            // All code relies on the order of the ends and on a
            // sum without overflow; these numbers are from a file.
            let is_next = permits.last_end().is_none_or(|last| last <= ends);
            permits.units().checked_add(*units).filter(|_| *units > 0 && is_next)?;
            permits.insert(TakenPermit { ends, token_us: *token_us, units: *units });
        }
        Some(State { permits, last: Timestamp::from_micros(*last), token_us: *token_us })
    }
}
