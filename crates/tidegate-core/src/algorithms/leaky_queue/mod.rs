//! Leaky queue: admitted work leaves in order, each unit W/N after the previous unit.
//!
//! The state is a `Level`: the time until all admitted work has left. In Redis the script of the token bucket
//! decides, which keeps the same level.

use alloc::vec::Vec;

use crate::algorithm::{
    Amend, CarryUnits, Decide, Lease, Pack, Packing, Persist, Scripted, resized,
};
use crate::carry::level_units;
use crate::decision::Verdict;
use crate::error::RuleErrors;
use crate::field::Field;
use crate::level::{Level, Rate};
use crate::past::{Past, Since};
use crate::script::Script;
use crate::spec::Spec;
use crate::time::{Micros, Timestamp};

/// A queue that holds `capacity` waiting units and serves one every W/N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyQueue {
    per_window: u64,
    max_debt: Option<u64>,
    /// Most units in the queue: one is served immediately, `capacity` wait; none at a limit of 0.
    most_held: u64,
    window: Micros,
    rate: Rate,
}

impl LeakyQueue {
    /// The time for which an arrival at `at` would wait, in grains.
    fn wait(&self, state: &Level, at: Timestamp) -> u128 {
        state.left(self.rate, at)
    }
}

impl Decide for LeakyQueue {
    type State = Level;
    const FIELDS: &'static [Field] = &[Field::Capacity];
    const IS_QUEUE: bool = true;

    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors> {
        let rate = Rate::new(limit, window);
        let capacity = rate.check_capacity(spec.capacity.unwrap_or(limit))?;
        let most_held = if limit == 0 { 0 } else { capacity + 1 };
        let max_debt = spec.max_debt;
        Ok(Self { per_window: limit, max_debt, most_held, window, rate })
    }

    fn fresh(&self, _now: Timestamp) -> Level {
        Level::EMPTY
    }

    /// The last unit of the request may wait as long as a full queue takes to leave.
    #[inline]
    fn decide(&self, state: &Level, at: Timestamp, cost: u64) -> Verdict {
        if cost > self.most_held {
            Verdict::Never
        } else if self.wait(state, at) <= self.rate.grains(self.most_held - cost) {
            Verdict::Allow
        } else {
            Verdict::Deny
        }
    }

    #[inline]
    fn take(&self, state: &mut Level, at: Timestamp, cost: u64) {
        state.add(self.rate, at, cost);
    }

    fn give_back(&self, state: &mut Level, at: Timestamp, units: u64) {
        state.remove(self.rate, at, units);
    }

    /// The last slots of the queue, as long as none was promised after them.
    fn give_back_since(&self, state: &mut Level, at: Timestamp, units: u64, since: Since) -> u64 {
        let are_last = state.last() == since.at && state.past().admits(since);
        let grains = self.rate.grains(units);
        if are_last { state.lower(self.rate, at, since.at, grains, grains) } else { 0 }
    }

    fn past<'s>(&self, state: &'s Level) -> Option<&'s Past> {
        Some(state.past())
    }

    fn past_mut<'s>(&self, state: &'s mut Level) -> Option<&'s mut Past> {
        Some(state.past_mut())
    }

    fn counts_for(&self, units: u64) -> Micros {
        if self.per_window == 0 { self.window } else { self.rate.wait(self.rate.grains(units)) }
    }

    fn window(&self) -> Micros {
        self.window
    }

    fn lap(&self) -> Option<Micros> {
        None
    }

    #[inline]
    fn last(&self, state: &Level) -> Timestamp {
        state.last()
    }

    fn rewind(&self, state: &mut Level, to: Timestamp) {
        state.rewind(self.rate, to);
    }

    fn limit(&self) -> u64 {
        self.most_held
    }

    fn max_debt(&self) -> Option<u64> {
        self.max_debt
    }

    fn remaining(&self, state: &Level, at: Timestamp) -> u64 {
        // A first unit fits if it has a place, and one more for each whole unit that is left then.
        let with_one_more = self.wait(state, at).saturating_add(self.rate.grains(1));
        match self.rate.grains(self.most_held).checked_sub(with_one_more) {
            Some(slack) => self.rate.units_floor(slack) + 1,
            None => 0,
        }
    }

    fn retry_after(&self, state: &Level, at: Timestamp, cost: u64) -> Micros {
        let longest = self.rate.grains(self.most_held.saturating_sub(cost));
        self.rate.wait(self.wait(state, at).saturating_sub(longest))
    }

    fn reset_after(&self, state: &Level, at: Timestamp) -> Micros {
        self.rate.wait_from(at, self.wait(state, at))
    }

    /// The request leaves when everything before it has.
    fn delay(&self, state: &Level, at: Timestamp, taken: u64) -> Micros {
        let own = self.rate.grains(taken);
        self.rate.wait(self.wait(state, at).saturating_sub(own))
    }

    /// Slots are W/N apart; the units of one request leave together in the first of its slots.
    fn bound(&self, largest_cost: u64) -> u64 {
        if self.most_held == 0 { 0 } else { self.per_window + largest_cost.saturating_sub(1) }
    }

    fn used(&self, state: &Level, at: Timestamp) -> u64 {
        self.rate.units_ceil(self.wait(state, at))
    }
}

impl Amend for LeakyQueue {
    fn same_shape(&self, old: &Self) -> bool {
        self.window == old.window
    }

    fn refit(&self, old: &Self, state: &mut Level, at: Timestamp) {
        let rises = self.per_window > old.per_window || self.most_held > old.most_held;
        // A closed limiter keeps all usage.
        state.convert(self.rate, old.rate, at, rises || self.per_window == 0);
    }

    fn owed(&self, state: &Level, at: Timestamp) -> [u64; 2] {
        state.owed(self.rate, at, self.most_held)
    }

    fn ease(&self, state: &mut Level, at: Timestamp, debt: u64) {
        state.ease(self.rate, at, self.most_held, self.per_window, debt);
    }
}

/// A queue admits nothing ahead of time: each unit leaves at a time of its own.
impl Lease for LeakyQueue {}

impl Pack for LeakyQueue {
    /// The time of the last slot is packed as well, because units may come back only of that time.
    fn packing(&self) -> Packing {
        // The time takes the first word, and the grains the second, which has 64 bits.
        let fits = self.rate.grains(self.most_held) <= u64::MAX.into();
        if fits { Packing::Two } else { Packing::Unpacked }
    }

    #[inline]
    fn pack<const WORDS: usize>(&self, _base: Timestamp, state: &Level) -> [u64; WORDS] {
        resized(state.pack_with_last(self.rate))
    }

    #[inline]
    fn unpack<const WORDS: usize>(&self, _base: Timestamp, words: [u64; WORDS]) -> Level {
        Level::unpack_with_last(self.rate, resized(words))
    }

    #[inline(always)]
    fn ask_packed<const WORDS: usize>(
        &self,
        _base: Timestamp,
        words: &mut [u64; WORDS],
        now: Timestamp,
        cost: u64,
    ) -> Verdict {
        if cost == 0 {
            return Verdict::Allow;
        }
        let Some(most) = self.most_held.checked_sub(cost) else { return Verdict::Never };
        match Level::add_packed(self.rate, resized(*words), now, self.rate.grains(most), cost) {
            Some(level) => {
                *words = resized(level);
                Verdict::Allow
            }
            None => Verdict::Deny,
        }
    }
}

impl CarryUnits for LeakyQueue {
    const UNITS_HAVE_TIMES: bool = false;

    fn used_units(&self, state: &Level, at: Timestamp, note: &mut dyn FnMut(Timestamp, u64)) {
        let (since, units) = level_units(state, self.rate, at);
        note(since, units);
    }

    fn amount(&self, state: &Level, at: Timestamp) -> u128 {
        state.left(self.rate, at)
    }
}

impl Scripted for LeakyQueue {
    const SCRIPT: Script = Script {
        kind: 2,
        name: "leaky_queue",
        text: include_str!("../token_bucket/script.lua"),
        lease: "",
        state_integers: 3,
    };

    fn parameters(&self) -> [u64; 4] {
        [self.per_window, self.window.as_micros(), self.most_held, 0]
    }

    fn restore_fields(_kind: u8, [limit, _, most_held, _]: [u64; 4], spec: &mut Spec) {
        spec.capacity = (limit > 0).then(|| most_held.saturating_sub(1));
    }

    fn script_args(&self, cost: u64) -> Vec<i64> {
        self.rate.script_args(cost, self.most_held.checked_sub(cost), 0)
    }

    fn decode_state(&self, numbers: &[u64]) -> Option<Level> {
        Level::decode_state(self.rate, numbers)
    }
}

impl Persist for LeakyQueue {
    fn persist(&self, state: &Level, _last: Timestamp, numbers: &mut Vec<u64>) {
        // The words of a queue keep the time as well.
        state.persist(self.rate, state.last(), numbers);
    }

    fn restore(&self, numbers: &[u64]) -> Option<Level> {
        Level::restore(self.rate, numbers)
    }
}
