//! `leaky_bucket`: water that leaks N/W; a cost is admitted when it still fits the capacity.
//!
//! The water is exact, counted in w-ths of a unit, where n/w is N/W reduced. A line through
//! (`at`, `water`) gives it at every other time, also at one shortly before `at`.
//!
//! `mark` is the lowest level since the oldest open reservation: water below it cannot have leaked since then, so units
//! of a reservation come back as far as the mark is high.

use super::{Policy, mark::Mark, meaning::Meaning, rate::Rate, rate::ceil_div};

/// The water at one time.
#[derive(Clone, Debug)]
pub(super) struct LeakyBucket {
    rate: Rate,
    capacity: i128,
    water: i128,
    at: i128,
    mark: Mark,
}

impl LeakyBucket {
    pub(super) fn fresh(policy: &Policy) -> Self {
        let (rate, capacity) = (Rate::of(policy), policy.decision_limit().into());
        Self { rate, capacity, water: 0, at: 0, mark: Mark::default() }
    }

    fn water(&self, t: i128) -> i128 {
        (self.water - (t - self.at) * self.rate.n).max(0)
    }

    /// The water above the level at which `cost` fits.
    fn excess(&self, t: i128, cost: i128) -> i128 {
        self.water(t) + cost * self.rate.w - self.capacity * self.rate.w
    }
}

impl Meaning for LeakyBucket {
    fn used(&self, t: i128) -> i128 {
        ceil_div(self.water(t), self.rate.w)
    }

    fn admits(&self, t: i128, cost: i128) -> bool {
        self.excess(t, cost) <= 0
    }

    fn remaining(&self, t: i128) -> i128 {
        self.capacity - self.used(t)
    }

    fn retry_after(&self, t: i128, cost: i128) -> Option<i128> {
        (cost <= self.capacity).then(|| self.rate.wait(self.excess(t, cost)))
    }

    fn reset_after(&self, t: i128) -> i128 {
        self.rate.wait_from(t, self.water(t))
    }

    fn charge(&mut self, t: i128, units: i128) {
        self.mark.see(self.water(t));
        self.water = self.water(t) + units * self.rate.w;
        self.at = t;
    }

    fn refund(&mut self, t: i128, units: i128) {
        self.mark.see((self.water(t) - units * self.rate.w).max(0));
        if self.water(t) > 0 {
            self.water = (self.water(t) - units * self.rate.w).max(0);
            self.at = t;
        }
    }

    fn reserve(&mut self, t: i128) {
        self.mark.begin(t, self.water(t));
    }

    fn close(&mut self, since: i128) {
        self.mark.close(since);
    }

    fn give_back(&mut self, t: i128, units: i128, since: i128, drained: i128) -> i128 {
        let water = self.water(t);
        self.mark.see(water);
        let parts = units * self.rate.w;
        // Two lower bounds of the parts that are still there: parts that cannot have drained, and the fewest since then.
        let undrained = parts - drained;
        let given = undrained.max(self.mark.least_since(since).min(parts)).max(0).min(water);
        self.mark.lower(given);
        if given > 0 {
            (self.water, self.at) = (water - given, t);
        }
        ceil_div(given, self.rate.w)
    }

    fn move_back(&mut self, last: i128, t: i128) {
        self.mark = Mark::default();
        self.at -= last - t;
    }

    fn amend(&mut self, t: i128, policy: &Policy) {
        let rate = Rate::of(policy);
        self.mark.see(self.water(t));
        self.mark.convert(self.rate, rate);
        self.water = self.rate.convert(self.water(t), rate);
        self.at = if self.water > 0 { t } else { 0 };
        self.rate = rate;
        self.capacity = policy.decision_limit().into();
    }

    fn level(&self, t: i128) -> i128 {
        self.water(t)
    }

    fn set_level(&mut self, t: i128, parts: i128) {
        (self.water, self.at) = (parts, t);
    }
}
