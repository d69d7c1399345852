//! Sliding window in buckets: a ring of counters, each for one part of the window.
//!
//! The *age* of a bucket is its distance from the newest bucket, and the *span* is the number of buckets that count.
//! `packed.rs` decides on states that are packed into words, and `script.lua` makes the same decisions in Redis.

mod bits;
mod packed;
mod slots;

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use crate::algorithm::{Amend, CarryUnits, Decide, Lease, Persist, Scripted};
use crate::decision::Verdict;
use crate::error::{RuleError, RuleErrors};
use crate::field::Field;
use crate::past::{Past, Since};
use crate::script::Script;
use crate::spec::{MAX_BUCKETS, Spec};
use crate::time::{Micros, Timestamp};
use packed::PackedLayout;
use slots::{FEW, Slots};

const DEFAULT_BUCKETS: u64 = 10;

/// N units in the current bucket and the B-1 before it; strict: the B before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindow {
    limit: u64,
    max_debt: Option<u64>,
    window: Micros,
    width_us: u64,
    /// (2^64 - 1) / `width_us`, rounded down.
    reciprocal: u64,
    /// The number of buckets that count: B, or B+1 if strict.
    span: u64,
    layout: PackedLayout,
}

/// One counter for each bucket that may count. Bucket k is in slot k modulo the number of slots;
/// all belong to the `span` buckets that end with `newest`, and `total` is their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    slots: Slots,
    total: u64,
    /// The index of the newest bucket, counted from the epoch.
    newest: u64,
    last: Timestamp,
    past: Past,
}

impl SlidingWindow {
    /// Divides by the width of a bucket with a multiplication, which takes a fraction of the time. The high word of the
    /// product is the quotient or, as the reciprocal is rounded down, one less.
    #[inline]
    const fn bucket(&self, at: Timestamp) -> u64 {
        let at = at.as_micros();
        let bucket = ((at as u128 * self.reciprocal as u128) >> u64::BITS) as u64;
        if at - bucket * self.width_us >= self.width_us { bucket + 1 } else { bucket }
    }

    /// The slot of the bucket `age` buckets before `newest`; `age` is less than the span.
    const fn slot(&self, newest: u64, age: u64) -> usize {
        let slot = newest % self.span;
        (if age <= slot { slot - age } else { slot + self.span - age }) as usize
    }

    /// Units of the bucket `age` buckets before the newest.
    fn aged(&self, state: &State, age: u64) -> u64 {
        state.slots.get(self.slot(state.newest, age)).copied().map_or(0, u64::from)
    }

    /// The ages of the buckets that have left the window by `at`.
    fn gone(&self, state: &State, at: Timestamp) -> Range<u64> {
        let passed = self.bucket(at).saturating_sub(state.newest).min(self.span);
        self.span - passed..self.span
    }

    /// The ages of the buckets that still count at `at`, newest first.
    fn counting(&self, state: &State, at: Timestamp) -> Range<u64> {
        0..self.gone(state, at).start
    }

    /// Units that count at `at`.
    fn count(&self, state: &State, at: Timestamp) -> u64 {
        // From the total, because usually no bucket has left or only one.
        let gone: u64 = self.gone(state, at).map(|age| self.aged(state, age)).sum();
        state.total - gone
    }

    /// Resets, in place, the slots of the buckets that have left, so that the bucket of `at` is the newest, unless it
    /// is an earlier bucket: a packed state does not keep the time of its last unit, and a reading may arrive late.
    fn roll(&self, state: &mut State, at: Timestamp) {
        for age in self.gone(state, at) {
            let slot = self.slot(state.newest, age);
            state.total -= u64::from(mem::take(&mut state.slots[slot]));
        }
        let bucket = self.bucket(at);
        // Without units the newest bucket may become an earlier bucket.
        state.newest = if state.total == 0 { bucket } else { state.newest.max(bucket) };
    }

    /// The error for a `max_memory` that is too small for the counters of one key.
    fn too_large(&self, max_memory: u64) -> RuleError {
        let expected = format!(
            "at least the {} bytes that the {} counters of one key take, or fewer `buckets`",
            self.most_heap_bytes(),
            self.span
        );
        RuleError::OutOfRange { field: Field::MaxMemory, given: max_memory.to_string(), expected }
    }

    /// The first instant at which the bucket `age` before the newest no longer counts.
    fn leaves(&self, state: &State, age: u64) -> Timestamp {
        let end = (state.newest + self.span - age).saturating_mul(self.width_us);
        Timestamp::EPOCH.plus(Micros::from_micros(end))
    }
}

impl Decide for SlidingWindow {
    type State = State;
    const FIELDS: &'static [Field] = &[Field::Buckets, Field::Strict, Field::MaxMemory];

    /// Sets the largest number of buckets up to ten that divides the window.
    fn fit(spec: &mut Spec, _limit: u64, window: Micros) {
        spec.buckets = (1..=10).rev().find(|buckets| window.as_micros().is_multiple_of(*buckets));
    }

    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors> {
        let buckets = spec.buckets.unwrap_or(DEFAULT_BUCKETS);
        if !divides(buckets, window) {
            return Err(RuleError::Indivisible {
                buckets,
                window: window.into(),
                nearest: nearest(buckets, window),
            }
            .into());
        }
        // Strict counts one bucket more: the bucket that has left only in part.
        let span = if spec.strict.unwrap_or_default() { buckets + 1 } else { buckets };
        let width_us = window.as_micros() / buckets;
        let layout = PackedLayout::new(limit, width_us, span);
        let algorithm = Self {
            limit,
            max_debt: spec.max_debt,
            window,
            width_us,
            reciprocal: u64::MAX / width_us,
            span,
            layout,
        };
        match spec.max_memory.filter(|most| *most < algorithm.most_heap_bytes()) {
            Some(too_few) => Err(algorithm.too_large(too_few).into()),
            None => Ok(algorithm),
        }
    }

    fn fresh(&self, now: Timestamp) -> State {
        State {
            slots: Slots::new(self.span),
            total: 0,
            newest: self.bucket(now),
            last: Timestamp::EPOCH,
            past: Past::NONE,
        }
    }

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
        self.roll(state, at);
        let slot = &mut state.slots[self.slot(state.newest, 0)];
        let before = *slot;
        // A counter of 32 bits stops at its largest value, and the total counts only the units that it took.
        *slot = before.saturating_add(u32::try_from(cost).unwrap_or(u32::MAX));
        state.total += u64::from(*slot - before);
        state.last = at;
    }

    fn give_back(&self, state: &mut State, at: Timestamp, units: u64) {
        let mut owed = units;
        // The oldest bucket that counts first: its units leave first.
        for age in self.counting(state, at).rev() {
            let slot = &mut state.slots[self.slot(state.newest, age)];
            let given = u32::try_from(owed).unwrap_or(u32::MAX).min(*slot);
            *slot -= given;
            state.total -= u64::from(given);
            owed -= u64::from(given);
        }
    }

    /// Lowers the bucket of `since`, if that counts.
    fn give_back_since(&self, state: &mut State, at: Timestamp, units: u64, since: Since) -> u64 {
        let age = state.newest.checked_sub(self.bucket(since.at));
        let Some(age) = age.filter(|age| self.counting(state, at).contains(age)) else { return 0 };
        if !state.past.admits(since) {
            return 0;
        }
        let slot = &mut state.slots[self.slot(state.newest, age)];
        let given = u32::try_from(units).unwrap_or(u32::MAX).min(*slot);
        *slot -= given;
        state.total -= u64::from(given);
        u64::from(given)
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

    fn lap(&self) -> Option<Micros> {
        Some(Micros::from_micros(self.span * self.width_us))
    }

    fn last(&self, state: &State) -> Timestamp {
        state.last
    }

    fn rewind(&self, state: &mut State, to: Timestamp) {
        let newest = self.bucket(to);
        // Bucket k is in slot k modulo the span: the counters turn, so that each has the age that it had.
        let turn = (state.newest % self.span + self.span - newest % self.span) % self.span;
        // In place there may be more slots than buckets.
        state.slots[..self.span as usize].rotate_left(turn as usize);
        state.newest = newest;
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

    fn retry_after(&self, state: &State, at: Timestamp, cost: u64) -> Micros {
        let mut excess = (self.count(state, at) + cost).saturating_sub(self.limit);
        for age in self.counting(state, at).rev() {
            // Units leave in this order, bucket by bucket, until enough have left.
            excess = excess.saturating_sub(self.aged(state, age));
            if excess == 0 {
                return self.leaves(state, age).since(at);
            }
        }
        Micros::ZERO
    }

    fn reset_after(&self, state: &State, at: Timestamp) -> Micros {
        self.counting(state, at)
            // The newest bucket with units leaves last.
            .find(|age| self.aged(state, *age) > 0)
            .map_or(Micros::ZERO, |age| self.leaves(state, age).since(at))
    }

    /// With `strict`, every bucket that an interval of length W can touch counts; otherwise one is
    /// left out.
    fn bound(&self, _largest_cost: u64) -> u64 {
        if self.span * self.width_us > self.window.as_micros() {
            self.limit
        } else {
            2 * self.limit
        }
    }

    fn used(&self, state: &State, at: Timestamp) -> u64 {
        self.count(state, at)
    }

    fn heap_bytes(&self, _state: &State) -> u64 {
        self.most_heap_bytes()
    }

    fn most_heap_bytes(&self) -> u64 {
        if self.span > FEW as u64 { self.span * size_of::<u32>() as u64 } else { 0 }
    }
}

impl Amend for SlidingWindow {
    fn same_shape(&self, old: &Self) -> bool {
        (self.window, self.width_us, self.span) == (old.window, old.width_us, old.span)
    }
}

/// All units of one bucket count alike, so a lease ends with its bucket.
impl Lease for SlidingWindow {
    fn lease_end(&self, _state: &State, at: Timestamp) -> Option<Timestamp> {
        let end = (self.bucket(at) + 1).saturating_mul(self.width_us);
        Some(Timestamp::EPOCH.plus(Micros::from_micros(end)))
    }
}

impl CarryUnits for SlidingWindow {
    /// At the beginnings of their buckets.
    fn used_units(&self, state: &State, at: Timestamp, note: &mut dyn FnMut(Timestamp, u64)) {
        for age in self.counting(state, at).rev() {
            let begins = state.newest.saturating_sub(age).saturating_mul(self.width_us);
            note(Timestamp::EPOCH.plus(Micros::from_micros(begins)), self.aged(state, age));
        }
    }
}

impl Scripted for SlidingWindow {
    const SCRIPT: Script = Script {
        kind: 5,
        name: "sliding_window",
        text: include_str!("script.lua"),
        lease: "",
        state_integers: 3,
    };

    fn parameters(&self) -> [u64; 4] {
        [self.limit, self.window.as_micros(), self.width_us, self.span]
    }

    fn restore_fields(_kind: u8, [_, window, width, span]: [u64; 4], spec: &mut Spec) {
        spec.buckets = window.checked_div(width);
        spec.strict = spec.buckets.map(|buckets| span > buckets);
    }

    fn script_args(&self, _cost: u64) -> Vec<i64> {
        [self.limit, self.width_us, self.span].map(u64::cast_signed).to_vec()
    }

    /// A script keeps the counters by age, so they need not move when the clock goes back.
    fn decode_state(&self, numbers: &[u64]) -> Option<State> {
        let (&[newest, total, last], by_age) = numbers.split_first_chunk()?;
        let mut slots = Slots::new(self.span);
        // These numbers are from a store, and all code relies on the sum and the bounds.
        let sum = by_age.iter().try_fold(0, |sum: u64, units| sum.checked_add(*units));
        if by_age.len() as u64 != self.span
            || sum != Some(total)
            || newest > self.bucket(Timestamp::MAX)
        {
            return None;
        }
        for (age, units) in (0..self.span).zip(by_age) {
            slots[self.slot(newest, age)] = u32::try_from(*units).ok()?;
        }
        let last = Timestamp::from_micros(last);
        Some(State { slots, total, newest, last, past: Past::NONE })
    }
}

impl Persist for SlidingWindow {
    fn persist(&self, state: &State, last: Timestamp, numbers: &mut Vec<u64>) {
        numbers.extend([state.newest, state.total, last.as_micros()]);
        numbers.extend((0..self.span).map(|age| self.aged(state, age)));
    }
}

const fn divides(buckets: u64, window: Micros) -> bool {
    window.as_micros().is_multiple_of(buckets)
}

/// The number of buckets nearest to `buckets` that divides the window; 1 always does.
fn nearest(buckets: u64, window: Micros) -> u64 {
    let below = (1..=buckets).rev().find(|n| divides(*n, window)).unwrap_or(1);
    // No farther above than the divisor below is.
    let above = (buckets..=MAX_BUCKETS.min(2 * buckets - below)).find(|n| divides(*n, window));
    above.unwrap_or(below)
}
