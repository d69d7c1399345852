//! A level that drains at N/W, kept as the moment when it will be empty.
//!
//! The missing tokens of a token bucket, the water in a leaky bucket and the waiting work in a
//! queue are the same quantity. With N/W reduced to n/w, one unit takes w/n microseconds to drain.
//! In *grains* of 1/n microsecond every possible moment is a whole number, so nothing is ever
//! rounded. The grains of every valid rule fit 128 bits (2^53 us x 10^9 < 2^83), with room for
//! debts.
//!
//! At a limit of 0 nothing drains: a grain is then a unit, and an instant counts as 0 grains.

mod eased;
mod packed;

use alloc::vec::Vec;

use crate::error::RuleError;
use crate::past::{Past, Since};
use crate::time::{Micros, Timestamp};

/// The longest time in which a bucket may fill: 2^53 microseconds.
const LONGEST_FILL_US: u64 = 1 << 53;

/// The rate N/W in lowest terms: n units per w microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    n: u64,
    w: u64,
}

/// When the level will be empty, in grains since the epoch, and when a unit was last added: the epoch, if that was
/// not kept ([`Level::unpack`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    empty_at: u128,
    last: Timestamp,
    past: Past,
}

impl Rate {
    pub(crate) const fn new(limit: u64, window: Micros) -> Self {
        // With a limit of 0 the divisor is W itself: n is 0 and w is 1, so that a grain is a unit.
        let common = greatest_common_divisor(limit, window.as_micros());
        Self { n: limit / common, w: window.as_micros() / common }
    }

    /// Units times microseconds of the window N/W in a grain.
    pub(crate) const fn parts_of_a_grain(self, window: Micros) -> u64 {
        window.as_micros() / self.w
    }

    /// Grains that `units` take to drain.
    #[inline]
    pub(crate) const fn grains(self, units: u64) -> u128 {
        units as u128 * self.w as u128
    }

    /// Whole microseconds that `grains` take to drain, rounded up; [`Micros::MAX`] if nothing
    /// drains.
    pub(crate) fn wait(self, grains: u128) -> Micros {
        match u128::from(self.n) {
            0 if grains == 0 => Micros::ZERO,
            0 => Micros::MAX,
            n => Micros::saturating_from(grains.div_ceil(n)),
        }
    }

    /// The wait until `grains` have drained, from `at` on; if nothing drains, the time until the
    /// last instant.
    pub(crate) fn wait_from(self, at: Timestamp, grains: u128) -> Micros {
        if self.n == 0 && grains > 0 { at.until_the_last() } else { self.wait(grains) }
    }

    /// Splits a length into whole microseconds and remaining grains, as scripts take it; if
    /// nothing drains, into grains alone. It stops at 2^53.
    pub(crate) fn split(self, grains: u128) -> [i64; 2] {
        let n = u128::from(self.n).max(1);
        match i64::try_from(grains / n) {
            // A script's numbers are doubles, which hold every whole number up to 2^53.
            Ok(us) if us <= 1 << 53 => [us, (grains % n).try_into().unwrap_or(0)],
            _ => [1 << 53, 0],
        }
    }

    /// The arguments of a level's script: the rate, the cost, the largest level at which the cost fits (-1 if it never
    /// fits), and the level at the start.
    pub(crate) fn script_args(self, cost: u64, space_for: Option<u64>, at_start: u64) -> Vec<i64> {
        let [cost_us, cost_part] = self.split(self.grains(cost));
        let [most_us, most_part] =
            space_for.map_or([-1, 0], |units| self.split(self.grains(units)));
        let [start_us, start_part] = self.split(self.grains(at_start));
        let n = self.n.cast_signed();
        let w = self.w.cast_signed();
        [n, w, cost_us, cost_part, most_us, most_part, start_us, start_part].to_vec()
    }

    /// Returns the capacity if its time to fill can be represented, or else the error. At a limit of 0, where
    /// nothing drains, the capacity is 0.
    pub(crate) fn check_capacity(self, capacity: u64) -> Result<u64, RuleError> {
        if self.n == 0 {
            return Ok(0);
        }
        let most = LONGEST_FILL_US as u128 * self.n as u128 / self.w as u128;
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        if capacity <= most { Ok(capacity) } else { Err(RuleError::TooSlow { capacity, most }) }
    }

    /// Units that are still there, in full or in part, when `grains` are left to drain.
    pub(crate) fn units_ceil(self, grains: u128) -> u64 {
        u64::try_from(grains.div_ceil(self.w as u128)).unwrap_or(u64::MAX)
    }

    /// Units that drain in `length`, rounded up.
    pub(crate) fn drained_in(self, length: Micros) -> u64 {
        self.units_ceil(u128::from(length.as_micros()) * u128::from(self.n))
    }

    /// Whole units that fit into `grains`.
    pub(crate) fn units_floor(self, grains: u128) -> u64 {
        u64::try_from(grains / self.w as u128).unwrap_or(u64::MAX)
    }

    #[inline]
    const fn instant(self, at: Timestamp) -> u128 {
        at.as_micros() as u128 * self.n as u128
    }

    /// The same units at this rate, rounded up: `grains` of `old` as grains of this rate.
    fn convert(self, old: Self, grains: u128) -> u128 {
        // Whole units by themselves: the product of all grains might not fit.
        let whole = grains / old.w as u128;
        let part = grains % old.w as u128;
        let part = (part * self.w as u128).div_ceil(old.w as u128);
        whole.saturating_mul(self.w as u128).saturating_add(part)
    }

    /// The same units at this rate, rounded down.
    fn convert_down(self, old: Self, grains: u128) -> u128 {
        let whole = grains / old.w as u128;
        let part = grains % old.w as u128;
        whole.saturating_mul(self.w as u128).saturating_add(part * self.w as u128 / old.w as u128)
    }
}

impl Level {
    /// A level that nothing was ever added to.
    pub(crate) const EMPTY: Self = Self { empty_at: 0, last: Timestamp::EPOCH, past: Past::NONE };

    #[inline]
    pub(crate) const fn last(&self) -> Timestamp {
        self.last
    }

    /// Grains still to drain at `at`.
    #[inline]
    pub(crate) const fn left(&self, rate: Rate, at: Timestamp) -> u128 {
        self.empty_at.saturating_sub(rate.instant(at))
    }

    pub(crate) const fn past(&self) -> &Past {
        &self.past
    }

    pub(crate) const fn past_mut(&mut self) -> &mut Past {
        &mut self.past
    }

    /// Notes that a reservation has just added its units.
    pub(crate) fn open(&mut self, rate: Rate, at: Timestamp) {
        self.past.open(at, self.whole(rate, at));
    }

    /// Adds the grains of `units`.
    #[inline]
    pub(crate) fn add(&mut self, rate: Rate, at: Timestamp, units: u64) {
        if !self.past.is_none() {
            self.note_added(rate, at, units);
        }
        // A level that ran empty in the past begins to drain now.
        let from = self.empty_at.max(rate.instant(at));
        self.empty_at = from.saturating_add(rate.grains(units));
        self.last = at;
    }

    /// Grains of all usage that are still to drain at `at`, including units that make no caller wait.
    pub(crate) fn whole(&self, rate: Rate, at: Timestamp) -> u128 {
        let whole = self.past.eased().map_or(0, |eased| eased.whole);
        self.empty_at.max(whole).saturating_sub(rate.instant(at))
    }

    /// Raises the level so that it does not drain before `until`. A level that drains later stays as it is.
    pub(crate) fn raise(&mut self, rate: Rate, until: Timestamp) {
        self.empty_at = self.empty_at.max(rate.instant(until));
    }

    /// Removes `units`, at most until the level is empty; first those that make no caller wait.
    pub(crate) fn remove(&mut self, rate: Rate, at: Timestamp, units: u64) {
        let left = self.left(rate, at);
        let whole = self.whole(rate, at);
        let rest = whole.saturating_sub(rate.grains(units));
        if left > 0 {
            // Units that make no caller wait leave first: the level falls only when fewer units are left than it has.
            self.empty_at = rate.instant(at) + left.min(rest);
        }
        if whole > 0 {
            // The units leave now: the levels before now, which the mark is about, stay as they were.
            self.past.see(rest);
            self.set_whole(rate, at, rest);
        }
    }

    /// Removes the rest of `units` that were added at `since`: the grains that cannot have drained, or the amount that
    /// the level held all the time since then. Returns the units, rounded up.
    pub(crate) fn give_back_since(
        &mut self,
        rate: Rate,
        at: Timestamp,
        units: u64,
        since: Since,
        undrained: u128,
    ) -> u64 {
        let whole = self.whole(rate, at);
        // A mark is brought up to date only when the level changes, so the present level counts too.
        let held = self.past.least_since(since.at).min(whole);
        // Two lower bounds of the units that are still there: they drained first, and yet
        // these are left; or the level never fell below this, whichever units drained.
        let owed = undrained.max(rate.grains(units).min(held));
        self.past.see(whole);
        self.lower(rate, at, since.at, owed, undrained)
    }

    /// Removes `owed` grains that were added at `since` as though they had never been added, at most until the level is empty;
    /// of an eased level only those that are `undrained`, and none that were added before it was lowered, because the
    /// grains taken off then come back first. Returns the units, rounded up: the rest of a unit has drained by itself,
    /// and nothing of it is lost.
    pub(crate) fn lower(
        &mut self,
        rate: Rate,
        at: Timestamp,
        since: Timestamp,
        owed: u128,
        undrained: u128,
    ) -> u64 {
        let left = self.left(rate, at);
        let whole = self.whole(rate, at);
        let given = owed.min(whole);
        let of_level = match self.past.eased() {
            Some(eased) if whole > left && since <= eased.cut => 0,
            Some(_) if whole > left => given.min(undrained),
            _ => given,
        };
        // The level that makes callers wait is never above all usage.
        let kept = left.saturating_sub(of_level).min(whole - given);
        self.empty_at -= left - kept;
        self.set_whole(rate, at, whole - given);
        // Without these units every level since then would have been lower, the lowest of them too.
        self.past.lower(given);
        rate.units_ceil(given)
    }

    /// Decodes the level that a script returned: the microseconds and grains left when the last
    /// unit was added, and the time of that unit.
    pub(crate) fn decode_state(rate: Rate, numbers: &[u64]) -> Option<Self> {
        let [us, part, last, ..] = *numbers else { return None };
        // If nothing drains, a script has units in place of microseconds.
        let left = u128::from(us) * u128::from(rate.n.max(1));
        let last = Timestamp::from_micros(last);
        Some(Self { empty_at: rate.instant(last) + left + u128::from(part), last, ..Self::EMPTY })
    }

    /// Appends the grains left at `last`, low word first, and `last`; of an eased level also the grains of all usage,
    /// and the grains caused by changes. Unlike a script's numbers, these hold every debt.
    pub(crate) fn persist(&self, rate: Rate, last: Timestamp, numbers: &mut Vec<u64>) {
        numbers.extend(words(self.left(rate, last)));
        numbers.push(last.as_micros());
        if let Some(eased) = self.past.eased() {
            numbers.extend(words(self.whole(rate, last)));
            numbers.extend(words(eased.caused.saturating_sub(rate.instant(last))));
        }
    }

    /// The level of the numbers that [`Level::persist`] appended.
    pub(crate) fn restore(rate: Rate, numbers: &[u64]) -> Option<Self> {
        let (&[low, high, last], eased) = numbers.split_first_chunk()?;
        let last = Timestamp::from_micros(last);
        let mut level = Self { last, ..Self::EMPTY };
        level.empty_at = rate.instant(last).saturating_add(grains(low, high));
        match *eased {
            [] => {}
            [whole_low, whole_high, low, high] => {
                let whole = grains(whole_low, whole_high);
                let caused = rate.instant(last).saturating_add(grains(low, high));
                // The time of the cut is not in the numbers. With the last unit's time in its
                // place no unit from before the restoration gives back more than it would have.
                level.past.ease(Some(Self::eased(rate, last, whole, last, caused)));
            }
            _ => return None,
        }
        Some(level)
    }

    /// Moves the level back in time so that its last unit was added at `to`.
    pub(crate) fn rewind(&mut self, rate: Rate, to: Timestamp) {
        let step = u128::from(self.last.since(to).as_micros()) * u128::from(rate.n);
        if let Some(eased) = self.past.eased() {
            // All usage is kept by the grains that were left at the last unit, so it moves with that.
            let left = eased.whole.saturating_sub(rate.instant(self.last));
            let caused = eased.caused.saturating_sub(step);
            self.past.ease(Some(Self::eased(rate, to, left, eased.cut.min(to), caused)));
        }
        self.empty_at = self.empty_at.saturating_sub(step);
        self.last = to;
    }

    /// Keeps the units and drains them at `rate` from now on; if more is allowed than before (`rises`), also those that
    /// made no caller wait. An empty level stays empty at any reading of the clock.
    pub(crate) fn convert(&mut self, rate: Rate, old: Rate, at: Timestamp, rises: bool) {
        let left = self.left(old, at);
        let whole = self.whole(old, at);
        // The mark is seen in the old grains before it is converted; rounded down, so that no more
        // comes back than the level held.
        self.past.see(whole);
        self.past.convert(|grains| rate.convert_down(old, grains));
        let left = rate.convert(old, if rises { whole } else { left });
        self.empty_at = if left == 0 { 0 } else { rate.instant(at).saturating_add(left) };
        if let Some(eased) = self.past.eased() {
            let whole = rate.convert(old, whole);
            self.past.ease(Some(Self::eased(rate, at, whole, eased.cut, 0)));
        }
    }
}

/// The words of a number of grains, the low one first.
const fn words(grains: u128) -> [u64; 2] {
    [grains as u64, (grains >> u64::BITS) as u64]
}

const fn grains(low: u64, high: u64) -> u128 {
    (high as u128) << u64::BITS | low as u128
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
