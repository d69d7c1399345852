//! `token_bucket`: a level that grows by N/W up to the capacity; each unit takes one token.
//!
//! The level is exact, counted in w-ths of a token, where n/w is N/W reduced. A line through
//! (`at`, `level`) gives it at every other time, also at one shortly before `at`.

use super::{Policy, mark::Mark, meaning::Meaning, rate::Rate, rate::ceil_div};

/// The level at one time.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    rate: Rate,
    capacity: i128,
    level: i128,
    at: i128,
    mark: Mark,
}

impl TokenBucket {
    pub(super) fn fresh(policy: &Policy, t: i128) -> Self {
        let (rate, capacity) = (Rate::of(policy), policy.decision_limit());
        let initial = policy.initial.unwrap_or(capacity).min(capacity);
        Self {
            rate,
            capacity: i128::from(capacity),
            level: i128::from(initial) * rate.w,
            at: if initial < capacity { t } else { 0 },
            mark: Mark::default(),
        }
    }

    fn full(&self) -> i128 {
        self.capacity * self.rate.w
    }

    fn tokens(&self, t: i128) -> i128 {
        self.full().min(self.level + (t - self.at) * self.rate.n)
    }

    /// The tokens that are missing to a full bucket.
    fn missing(&self, t: i128) -> i128 {
        self.full() - self.tokens(t)
    }
}

impl Meaning for TokenBucket {
    fn used(&self, t: i128) -> i128 {
        ceil_div(self.missing(t), self.rate.w)
    }

    fn admits(&self, t: i128, cost: i128) -> bool {
        self.tokens(t) >= cost * self.rate.w
    }

    fn remaining(&self, t: i128) -> i128 {
        self.tokens(t).div_euclid(self.rate.w)
    }

    fn retry_after(&self, t: i128, cost: i128) -> Option<i128> {
        let lacking = cost * self.rate.w - self.tokens(t);
        (cost <= self.capacity).then(|| self.rate.wait(lacking))
    }

    fn reset_after(&self, t: i128) -> i128 {
        self.rate.wait_from(t, self.missing(t))
    }

    fn charge(&mut self, t: i128, units: i128) {
        self.mark.see(self.missing(t));
        self.level = self.tokens(t) - units * self.rate.w;
        self.at = t;
    }

    fn refund(&mut self, t: i128, units: i128) {
        self.mark.see((self.missing(t) - units * self.rate.w).max(0));
        if self.missing(t) > 0 {
            self.level = self.full().min(self.tokens(t) + units * self.rate.w);
            self.at = t;
        }
    }

    fn reserve(&mut self, t: i128) {
        self.mark.begin(t, self.missing(t));
    }

    fn close(&mut self, since: i128) {
        self.mark.close(since);
    }

    fn give_back(&mut self, t: i128, units: i128, since: i128, drained: i128) -> i128 {
        let missing = self.missing(t);
        self.mark.see(missing);
        let parts = units * self.rate.w;
        // Two lower bounds of the parts still missing: parts that cannot have come back, and the fewest since then.
        let undrained = parts - drained;
        let given = undrained.max(self.mark.least_since(since).min(parts)).max(0).min(missing);
        self.mark.lower(given);
        if given > 0 {
            (self.level, self.at) = (self.full() - missing + given, t);
        }
        ceil_div(given, self.rate.w)
    }

    fn move_back(&mut self, last: i128, t: i128) {
        self.mark = Mark::default();
        self.at -= last - t;
    }

    fn amend(&mut self, t: i128, policy: &Policy) {
        let rate = Rate::of(policy);
        self.mark.see(self.missing(t));
        self.mark.convert(self.rate, rate);
        let missing = self.rate.convert(self.missing(t), rate);
        self.rate = rate;
        self.capacity = i128::from(policy.decision_limit());
        self.level = self.full() - missing;
        self.at = if missing > 0 { t } else { 0 };
    }

    fn level(&self, t: i128) -> i128 {
        self.missing(t)
    }

    fn set_level(&mut self, t: i128, parts: i128) {
        (self.level, self.at) = (self.full() - parts, t);
    }
}
