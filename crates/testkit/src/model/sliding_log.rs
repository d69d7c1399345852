//! `sliding_log`: at most N units in every half-open `(t-W, t]`.
//!
//! With a resolution of r a unit counts as of the last microsecond of its tick `t div r`, so it
//! stays up to r - 1 longer and never leaves too early.

use super::{Policy, history::History, meaning::Meaning};

/// Units by tick.
#[derive(Clone, Debug)]
pub(super) struct SlidingLog {
    limit: i128,
    window: i128,
    resolution: i128,
    history: History,
}

impl SlidingLog {
    pub(super) fn fresh(policy: &Policy) -> Self {
        Self {
            limit: policy.limit.into(),
            window: policy.window_us.into(),
            resolution: policy.resolution_us.into(),
            history: History::default(),
        }
    }

    /// The time that a unit taken at `t` counts from: the last microsecond of its tick.
    fn end_of_tick(&self, t: i128) -> i128 {
        t.div_euclid(self.resolution) * self.resolution + self.resolution - 1
    }

    /// Returns whether units that count as of `place` are in the window at `t`.
    fn counts_at(&self, t: i128) -> impl Fn(i128) -> bool + use<> {
        let window = self.window;
        move |place| place > t - window
    }
}

impl Meaning for SlidingLog {
    fn used(&self, t: i128) -> i128 {
        self.history.sum(self.counts_at(t))
    }

    fn admits(&self, t: i128, cost: i128) -> bool {
        self.used(t) + cost <= self.limit
    }

    fn remaining(&self, t: i128) -> i128 {
        self.limit - self.used(t)
    }

    fn retry_after(&self, t: i128, cost: i128) -> Option<i128> {
        if cost > self.limit {
            return None;
        }
        let exits = self.history.places().map(|place| place + self.window);
        exits.filter(|exit| *exit > t).find(|exit| self.admits(*exit, cost)).map(|exit| exit - t)
    }

    fn reset_after(&self, t: i128) -> i128 {
        self.history.newest().map_or(0, |place| place + self.window - t)
    }

    fn charge(&mut self, t: i128, units: i128) {
        let place = self.end_of_tick(t);
        self.history.add(self.history.newest().map_or(place, |newest| newest.max(place)), units);
    }

    fn refund(&mut self, t: i128, units: i128) {
        let counts = self.counts_at(t);
        self.history.give_back(units, counts);
    }

    /// If they still count, as many of the oldest units that count leave in their place. So the units that stay leave
    /// later.
    fn give_back(&mut self, t: i128, units: i128, since: i128, _drained: i128) -> i128 {
        let counts = self.counts_at(t);
        let left = if counts(self.end_of_tick(since)) { units } else { 0 };
        left - self.history.give_back(left, counts)
    }

    fn move_back(&mut self, last: i128, t: i128) {
        self.history.move_back(last - t);
    }

    fn amend(&mut self, _t: i128, policy: &Policy) {
        self.limit = policy.limit.into();
    }
}
