//! Token bucket and leaky bucket: one level seen from its two ends.
//!
//! Tokens missing from a token bucket are water in a leaky bucket, so both are a [`Level`] that
//! drains at N/W. `gcra` is a third name for it: the moment the level will be empty is the
//! theoretical arrival time of the generic cell rate algorithm (ITU-T I.371), whose tolerance is
//! capacity - 1 units.

use alloc::vec::Vec;

use crate::algorithm::{
    Amend, CarryUnits, Decide, Lease, Pack, Packing, Persist, Scripted, resized,
};
use crate::carry::level_units;
use crate::decision::Verdict;
use crate::error::{RuleErrors, out_of_range};
use crate::field::Field;
use crate::level::{Level, Rate};
use crate::past::{Past, Since};
use crate::script::Script;
use crate::spec::Spec;
use crate::time::{Micros, Timestamp};

/// A bucket of up to `capacity` tokens that refill at N per window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    per_window: u64,
    max_debt: Option<u64>,
    capacity: u64,
    missing_at_start: u64,
    window: Micros,
    rate: Rate,
    packing: Packing,
}

impl TokenBucket {
    fn missing(&self, state: &Level, at: Timestamp) -> u128 {
        state.left(self.rate, at)
    }

    /// Notes under which limit the level has drained until now.
    fn note_limit(&self, old: &Self, state: &mut Level, at: Timestamp) {
        let used = self.rate.units_ceil(state.whole(self.rate, at));
        let most = used.max(self.capacity).max(old.capacity);
        if used == 0 {
            // All units taken before have drained.
            return state.past_mut().rule_changes(at, most, |most| self.counts_for(most));
        }
        // Where nothing drains, no units are taken that might come back, and those that are in use stay.
        let gone = if old.per_window == 0 { Micros::ZERO } else { old.counts_for(most) };
        state.past_mut().limit_ends(old.per_window, at, most, gone, |most| {
            self.rate.wait(self.rate.grains(most))
        });
    }

    /// The grains of units that cannot have drained since they were taken, if the level drained them first.
    fn undrained(&self, state: &Level, at: Timestamp, units: u64, since: Since) -> u128 {
        if !state.past().admits(since) {
            return 0;
        }
        let (drained, rated) = state.past().drained(since, at);
        // Since the last change the present limit counts.
        let passed = u128::from(at.since(rated).as_micros());
        let drained = drained.saturating_add(passed * u128::from(self.per_window));
        let parts_of_a_grain = u128::from(self.rate.parts_of_a_grain(self.window));
        // Rounded up, so that a grain that has drained in part does not come back.
        self.rate.grains(units).saturating_sub(drained.div_ceil(parts_of_a_grain))
    }
}

impl Decide for TokenBucket {
    type State = Level;
    const FIELDS: &'static [Field] = &[Field::Capacity, Field::Initial];

    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors> {
        let rate = Rate::new(limit, window);
        let capacity = rate.check_capacity(spec.capacity.unwrap_or(limit))?;
        // At a limit of 0 there is no capacity to compare `initial` with.
        let initial = spec.initial.filter(|_| limit > 0).unwrap_or(capacity);
        if initial > capacity {
            return Err(out_of_range(Field::Initial, initial).into());
        }
        let packing = Level::packing(rate, rate.grains(capacity));
        Ok(Self {
            per_window: limit,
            max_debt: spec.max_debt,
            capacity,
            missing_at_start: capacity - initial,
            window,
            rate,
            packing,
        })
    }

    fn fresh(&self, now: Timestamp) -> Level {
        let mut level = Level::EMPTY;
        if self.missing_at_start > 0 {
            level.add(self.rate, now, self.missing_at_start);
        }
        level
    }

    #[inline]
    fn decide(&self, state: &Level, at: Timestamp, cost: u64) -> Verdict {
        if cost > self.capacity {
            Verdict::Never
        } else if self.missing(state, at) <= self.rate.grains(self.capacity - cost) {
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

    fn give_back_since(&self, state: &mut Level, at: Timestamp, units: u64, since: Since) -> u64 {
        let undrained = self.undrained(state, at, units, since);
        state.give_back_since(self.rate, at, units, since, undrained)
    }

    fn open(&self, state: &mut Level, at: Timestamp) {
        state.open(self.rate, at);
    }

    fn close(&self, state: &mut Level, since: Timestamp) {
        state.past_mut().close(since);
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
        self.capacity
    }

    fn max_debt(&self) -> Option<u64> {
        self.max_debt
    }

    fn remaining(&self, state: &Level, at: Timestamp) -> u64 {
        let held = self.rate.grains(self.capacity).saturating_sub(self.missing(state, at));
        self.rate.units_floor(held)
    }

    fn retry_after(&self, state: &Level, at: Timestamp, cost: u64) -> Micros {
        let space_needed = self.rate.grains(self.capacity.saturating_sub(cost));
        self.rate.wait(self.missing(state, at).saturating_sub(space_needed))
    }

    fn reset_after(&self, state: &Level, at: Timestamp) -> Micros {
        self.rate.wait_from(at, self.missing(state, at))
    }

    /// A full bucket, and the tokens that flow in during the interval.
    fn bound(&self, _largest_cost: u64) -> u64 {
        self.capacity + self.per_window
    }

    fn used(&self, state: &Level, at: Timestamp) -> u64 {
        self.rate.units_ceil(self.missing(state, at))
    }

    /// A bucket that began with fewer tokens must not start fresh, so it is never forgotten.
    fn is_unused(&self, state: &Level, at: Timestamp) -> bool {
        self.missing_at_start == 0 && self.missing(state, at) == 0
    }
}

impl Amend for TokenBucket {
    fn same_shape(&self, old: &Self) -> bool {
        self.window == old.window
    }

    fn refit(&self, old: &Self, state: &mut Level, at: Timestamp) {
        let rises = self.per_window > old.per_window || self.capacity > old.capacity;
        // A closed limiter keeps all usage.
        state.convert(self.rate, old.rate, at, rises || self.per_window == 0);
        if (self.per_window, self.capacity) != (old.per_window, old.capacity) {
            self.note_limit(old, state, at);
        }
    }

    fn owed(&self, state: &Level, at: Timestamp) -> [u64; 2] {
        state.owed(self.rate, at, self.capacity)
    }

    fn ease(&self, state: &mut Level, at: Timestamp, debt: u64) {
        state.ease(self.rate, at, self.capacity, self.per_window, debt);
    }
}

/// A lease counts as taken at its end. The level is raised to the amount that drains until then, so that the units of
/// the lease drain only afterwards, and no interval admits more than the capacity plus the inflow.
impl Lease for TokenBucket {
    fn lease_end(&self, _state: &Level, _at: Timestamp) -> Option<Timestamp> {
        (self.per_window > 0).then_some(Timestamp::MAX)
    }

    fn prepare(&self, state: &mut Level, end: Timestamp) {
        state.raise(self.rate, end);
    }

    fn most_leased(&self, life: Micros) -> u64 {
        // `prepare` raises the level by the amount that drains until the end of the lease.
        self.capacity.saturating_sub(self.rate.drained_in(life))
    }

    /// Under other leases only units come back that cannot have drained: see the proof in `lease.rs`.
    fn give_back_lease(
        &self,
        state: &mut Level,
        at: Timestamp,
        units: u64,
        since: Timestamp,
    ) -> u64 {
        let owed = self.undrained(state, at, units, Since::at(since));
        state.lower(self.rate, at, since, owed, owed)
    }
}

impl Pack for TokenBucket {
    fn packing(&self) -> Packing {
        // All zeros stand for an idle state, and such a bucket does not begin as one.
        if self.missing_at_start == 0 { self.packing } else { Packing::Unpacked }
    }

    #[inline]
    fn pack<const WORDS: usize>(&self, base: Timestamp, state: &Level) -> [u64; WORDS] {
        resized(state.pack(self.rate, base, self.packing))
    }

    #[inline]
    fn unpack<const WORDS: usize>(&self, base: Timestamp, words: [u64; WORDS]) -> Level {
        Level::unpack(self.rate, base, resized(words))
    }
}

impl CarryUnits for TokenBucket {
    const UNITS_HAVE_TIMES: bool = false;

    fn used_units(&self, state: &Level, at: Timestamp, note: &mut dyn FnMut(Timestamp, u64)) {
        let (since, units) = level_units(state, self.rate, at);
        note(since, units);
    }

    fn amount(&self, state: &Level, at: Timestamp) -> u128 {
        state.left(self.rate, at)
    }

    fn unused(&self) -> Level {
        Level::EMPTY
    }
}

impl Scripted for TokenBucket {
    const SCRIPT: Script = Script {
        kind: 1,
        name: "token_bucket",
        text: include_str!("script.lua"),
        lease: include_str!("lease.lua"),
        state_integers: 3,
    };

    fn parameters(&self) -> [u64; 4] {
        [self.per_window, self.window.as_micros(), self.capacity, self.missing_at_start]
    }

    fn restore_fields(_kind: u8, [limit, _, capacity, missing]: [u64; 4], spec: &mut Spec) {
        spec.capacity = (capacity != limit).then_some(capacity);
        spec.initial = (missing > 0).then_some(capacity.saturating_sub(missing));
    }

    fn script_args(&self, cost: u64) -> Vec<i64> {
        self.rate.script_args(cost, self.capacity.checked_sub(cost), self.missing_at_start)
    }

    fn decode_state(&self, numbers: &[u64]) -> Option<Level> {
        Level::decode_state(self.rate, numbers)
    }
}

impl Persist for TokenBucket {
    fn persist(&self, state: &Level, last: Timestamp, numbers: &mut Vec<u64>) {
        state.persist(self.rate, last, numbers);
    }

    fn restore(&self, numbers: &[u64]) -> Option<Level> {
        Level::restore(self.rate, numbers)
    }
}
