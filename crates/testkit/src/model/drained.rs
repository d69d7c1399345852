//! The units that a level has drained since a time, under the limits that were in force since then.
//!
//! A *level* is what a bucket or a queue counts: units in use, which drain at N/W. A unit is divided into *parts*, so that
//! whole numbers suffice: with N/W reduced to n/w ([`Rate`]), a unit has w parts, and n parts drain in a microsecond.

use super::{Model, rate::Rate, rate::ceil_div};

/// The number of earlier limits that count, as the specification says. The oldest of them stands for all limits before
/// it: the highest counts until the last of them ended, so that less comes back and never more.
const KNOWN: usize = 8;

/// The limits that were in force before the present limit, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits(Vec<FormerLimit>);

/// A limit that is no longer in force.
#[derive(Clone, Copy, Debug)]
struct FormerLimit {
    until_us: i128,
    limit: i128,
}

impl Limits {
    /// The limit was in force until `t`.
    pub(super) fn end(&mut self, t: i128, limit: u64) {
        let ended = FormerLimit { until_us: t, limit: limit.into() };
        match self.0.last_mut() {
            Some(last) if last.limit == ended.limit => *last = ended,
            _ => self.0.push(ended),
        }
    }

    /// The model forgets the earlier limits, because it gives back no unit that was taken under them.
    fn forget(&mut self) {
        self.0.clear();
    }

    /// At most `KNOWN` limits.
    fn known(&self) -> Vec<FormerLimit> {
        let merged = (self.0.len() + 1).saturating_sub(KNOWN);
        let (older, newer) = self.0.split_at(merged);
        let highest = older.iter().map(|former| former.limit).max();
        let oldest = older.last().zip(highest).map(|(last, limit)| FormerLimit { limit, ..*last });
        oldest.into_iter().chain(newer.iter().copied()).collect()
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
        limits.push(FormerLimit { until_us: t, limit: self.policy.limit.into() });
        let (mut begin, mut sum) = (since, 0);
        for FormerLimit { until_us, limit } in limits {
            let end = until_us.min(t);
            if end > begin {
                sum += (end - begin) * limit;
                begin = end;
            }
        }
        let parts_of_a_unit = Rate::of(&self.policy).w;
        ceil_div(sum * parts_of_a_unit, i128::from(self.policy.window_us.max(1)))
    }

    /// The parts of units above the capacity, which count as drained: a request takes no more than the capacity at once.
    /// Under an earlier limit the capacity may have been larger, so no part counts if the limit has changed since.
    pub(super) fn above(&self, units: i128, since: i128) -> i128 {
        if self.limits.0.last().is_some_and(|last| last.until_us >= since) {
            return 0;
        }
        let units = units - i128::from(self.policy.decision_limit());
        units.max(0) * Rate::of(&self.policy).w
    }
}
