//! A limit of 0 without a window, for any algorithm: nothing is admitted, and used units stay.

use super::{Policy, meaning::Meaning, rate::until_the_last_instant};

/// Units that stay in use.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    used: i128,
}

impl Closed {
    pub(super) fn fresh() -> Self {
        Self { used: 0 }
    }
}

impl Meaning for Closed {
    fn used(&self, _t: i128) -> i128 {
        self.used
    }

    fn admits(&self, _t: i128, _cost: i128) -> bool {
        false
    }

    fn remaining(&self, _t: i128) -> i128 {
        0
    }

    fn retry_after(&self, _t: i128, _cost: i128) -> Option<i128> {
        None
    }

    fn reset_after(&self, t: i128) -> i128 {
        if self.used > 0 { until_the_last_instant(t) } else { 0 }
    }

    fn charge(&mut self, _t: i128, units: i128) {
        self.used += units;
    }

    fn refund(&mut self, _t: i128, units: i128) {
        self.used = (self.used - units).max(0);
    }

    fn give_back(&mut self, _t: i128, units: i128, _since: i128, _drained: i128) -> i128 {
        let given = units.min(self.used);
        self.used -= given;
        given
    }

    fn move_back(&mut self, _last: i128, _t: i128) {}

    fn amend(&mut self, _t: i128, _policy: &Policy) {}
}
