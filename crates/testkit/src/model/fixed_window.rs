//! `fixed_window`: at most N units in each window of length W.
//!
//! Windows are aligned to the epoch, or begin at the first unit taken after the last window ended. A window that units
//! have opened stays, also when all of them were given back.

use super::{Policy, history::History, meaning::Meaning};

/// Units by the start of their window.
#[derive(Clone, Debug)]
pub(super) struct FixedWindow {
    limit: i128,
    window: i128,
    anchored: bool,
    history: History,
    /// When the newest window began that units opened.
    opened: Option<i128>,
}

impl FixedWindow {
    pub(super) fn fresh(policy: &Policy) -> Self {
        Self {
            limit: policy.limit.into(),
            window: policy.window_us.into(),
            anchored: policy.anchor_first_request,
            history: History::default(),
            opened: None,
        }
    }

    /// The start of the window that contains `t`, or of the window that a unit taken at `t` would begin.
    fn start(&self, t: i128) -> i128 {
        if !self.anchored {
            return t - t.rem_euclid(self.window);
        }
        self.opened.filter(|start| t < start + self.window).unwrap_or(t)
    }

    fn end(&self, t: i128) -> i128 {
        self.start(t) + self.window
    }
}

impl Meaning for FixedWindow {
    fn used(&self, t: i128) -> i128 {
        let start = self.start(t);
        self.history.sum(|place| place == start)
    }

    fn admits(&self, t: i128, cost: i128) -> bool {
        self.used(t) + cost <= self.limit
    }

    fn remaining(&self, t: i128) -> i128 {
        self.limit - self.used(t)
    }

    fn retry_after(&self, t: i128, cost: i128) -> Option<i128> {
        (cost <= self.limit).then(|| self.end(t) - t)
    }

    /// A window that begins with its first unit is running until it ends, even if nothing is used in it: the next unit
    /// opens no other.
    fn reset_after(&self, t: i128) -> i128 {
        let runs = self.anchored && self.opened.is_some_and(|start| t < start + self.window);
        if runs || self.used(t) > 0 { self.end(t) - t } else { 0 }
    }

    fn charge(&mut self, t: i128, units: i128) {
        let start = self.start(t);
        self.opened = Some(start);
        self.history.add(start, units);
    }

    fn refund(&mut self, t: i128, units: i128) {
        let start = self.start(t);
        self.history.give_back(units, |place| place == start);
    }

    /// Of the running window, if they were taken in it.
    fn give_back(&mut self, t: i128, units: i128, since: i128, _drained: i128) -> i128 {
        let start = self.start(t);
        let is_its = start <= since && since < start + self.window;
        units - self.history.give_back(units, |place| is_its && place == start)
    }

    fn move_back(&mut self, last: i128, t: i128) {
        let by = if self.anchored { last - t } else { self.start(last) - self.start(t) };
        self.opened = self.opened.map(|start| start - by);
        self.history.move_back(by);
    }

    fn amend(&mut self, _t: i128, policy: &Policy) {
        self.limit = policy.limit.into();
    }
}
