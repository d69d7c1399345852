//! `sliding_counter`: the previous window, weighted by the share of it still inside, plus the
//! current one, stay at or under N. Compared as exact fractions over W.

use super::{Policy, history::History, meaning::Meaning, rate::ceil_div};

/// Units by the number of their aligned window.
#[derive(Clone, Debug)]
pub(super) struct SlidingCounter {
    limit: i128,
    window: i128,
    history: History,
}

impl SlidingCounter {
    pub(super) fn fresh(policy: &Policy) -> Self {
        Self {
            limit: policy.limit.into(),
            window: policy.window_us.into(),
            history: History::default(),
        }
    }

    fn number(&self, t: i128) -> i128 {
        t.div_euclid(self.window)
    }

    fn count(&self, number: i128) -> i128 {
        self.history.sum(|place| place == number)
    }

    /// The estimate at `t`, in W-ths of a unit.
    fn estimate(&self, t: i128) -> i128 {
        let (number, elapsed) = (self.number(t), t.rem_euclid(self.window));
        self.count(number - 1) * (self.window - elapsed) + self.count(number) * self.window
    }
}

impl Meaning for SlidingCounter {
    fn used(&self, t: i128) -> i128 {
        ceil_div(self.estimate(t), self.window)
    }

    fn admits(&self, t: i128, cost: i128) -> bool {
        self.estimate(t) + cost * self.window <= self.limit * self.window
    }

    fn remaining(&self, t: i128) -> i128 {
        self.limit - self.used(t)
    }

    /// The estimate never grows while nothing arrives and is 0 after two windows: halve.
    fn retry_after(&self, t: i128, cost: i128) -> Option<i128> {
        if cost > self.limit {
            return None;
        }
        let (mut too_soon, mut enough) = (t, t + 2 * self.window);
        while enough - too_soon > 1 {
            let middle = (too_soon + enough) / 2;
            if self.admits(middle, cost) {
                enough = middle;
            } else {
                too_soon = middle;
            }
        }
        Some(enough - t)
    }

    fn reset_after(&self, t: i128) -> i128 {
        self.history.newest().map_or(0, |number| (number + 2) * self.window - t)
    }

    fn charge(&mut self, t: i128, units: i128) {
        self.history.add(self.number(t), units);
    }

    fn refund(&mut self, t: i128, units: i128) {
        let number = self.number(t);
        let left = self.history.give_back(units, |place| place == number);
        self.history.give_back(left, |place| place == number - 1);
    }

    /// Of the window in which they were taken, if that is this one or the one before.
    fn give_back(&mut self, t: i128, units: i128, since: i128, _rated: i128) -> i128 {
        let (number, of_take) = (self.number(t), self.number(since));
        let counts = of_take == number || of_take == number - 1;
        units - self.history.give_back(units, |place| counts && place == of_take)
    }

    fn move_back(&mut self, last: i128, t: i128) {
        self.history.move_back(self.number(last) - self.number(t));
    }

    fn amend(&mut self, _t: i128, policy: &Policy) {
        self.limit = policy.limit.into();
    }

    fn boxed(&self) -> Box<dyn Meaning> {
        Box::new(self.clone())
    }
}
