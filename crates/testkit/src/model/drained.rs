//! The units that a level has drained since a time, under the limits that were in force since then.

use super::{Model, rate::Rate, rate::ceil_div};

/// Changes of the limit that are known one by one. Before the oldest of them the fastest earlier limit counts.
const KNOWN: usize = 8;

/// The limits that were in force before the present one, each until a time, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits(Vec<(i128, i128)>);

impl Limits {
    /// The limit was in force until `t`.
    pub(super) fn end(&mut self, t: i128, limit: u64) {
        match self.0.last_mut() {
            Some((until, last)) if *last == i128::from(limit) => *until = t,
            _ => self.0.push((t, limit.into())),
        }
    }

    /// Nothing comes back that was taken under them.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// The limits as far as they are known.
    fn known(&self) -> Vec<(i128, i128)> {
        let merged = (self.0.len() + 1).saturating_sub(KNOWN);
        let (older, newer) = self.0.split_at(merged);
        let fastest = older.iter().map(|(_, limit)| *limit).max();
        let last = older.last().map(|(until, _)| *until);
        last.zip(fastest).into_iter().chain(newer.iter().copied()).collect()
    }
}

impl Model {
    /// Units that were taken before `t` come back no more.
    pub(super) fn lose(&mut self, t: i128) {
        self.lost = self.lost.max(t);
        self.limits.forget();
    }

    /// The parts of a unit that a level has drained from `since` to `t`.
    pub(super) fn drained(&self, since: i128, t: i128) -> i128 {
        let mut limits = self.limits.known();
        limits.push((t, self.policy.limit.into()));
        let (mut begin, mut sum) = (since, 0);
        for (until, limit) in limits {
            let end = until.min(t);
            if end > begin {
                sum += (end - begin) * limit;
                begin = end;
            }
        }
        let parts_of_a_unit = Rate::of(&self.policy).w;
        ceil_div(sum * parts_of_a_unit, i128::from(self.policy.window_us.max(1)))
    }

    /// The parts of units above the capacity: more is not taken at once under one limit.
    pub(super) fn above(&self, units: i128, since: i128) -> i128 {
        if self.limits.0.last().is_some_and(|(until, _)| *until >= since) {
            return 0;
        }
        let units = units - i128::from(self.policy.decision_limit());
        units.max(0) * Rate::of(&self.policy).w
    }
}
