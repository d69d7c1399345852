//! `leaky_bucket`: water that leaks N/W; a cost is admitted when it still fits the capacity.
//!
//! The water is exact, counted in w-ths of a unit, where n/w is N/W reduced. A line through
//! (`at`, `water`) gives it at every other time, also at one shortly before `at`.

use super::{Policy, meaning::Meaning, rate::Rate, rate::ceil_div};

/// The water at one time.
#[derive(Clone, Debug)]
pub(super) struct LeakyBucket {
    rate: Rate,
    capacity: i128,
    water: i128,
    at: i128,
}

impl LeakyBucket {
    pub(super) fn fresh(policy: &Policy) -> Self {
        Self { rate: Rate::of(policy), capacity: policy.decision_limit().into(), water: 0, at: 0 }
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
        self.water = self.water(t) + units * self.rate.w;
        self.at = t;
    }

    fn refund(&mut self, t: i128, units: i128) {
        if self.water(t) > 0 {
            self.water = (self.water(t) - units * self.rate.w).max(0);
            self.at = t;
        }
    }

    fn move_back(&mut self, last: i128, t: i128) {
        self.at -= last - t;
    }

    fn amend(&mut self, t: i128, policy: &Policy) {
        let rate = Rate::of(policy);
        self.water = self.rate.convert(self.water(t), rate);
        self.at = if self.water > 0 { t } else { 0 };
        self.rate = rate;
        self.capacity = policy.decision_limit().into();
    }

    fn boxed(&self) -> Box<dyn Meaning> {
        Box::new(self.clone())
    }
}
