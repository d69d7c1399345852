//! What was counted in one window.

use super::totals::{Count, Counts};

/// The figures of a resource in one window: the last second, the last minute, or one second of it.
///
/// The counts are units (a request of cost 3 passes 3), response times are microseconds. A time is
/// recorded for what succeeded, so `success` says how many times there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Units that were admitted; those borrowed ahead count when the half second they were borrowed
    /// from begins.
    pub pass: u64,
    /// Units that were refused.
    pub block: u64,
    /// Requests that ended with an error.
    pub exception: u64,
    /// Requests that ended well.
    pub success: u64,
    /// The response times of those that ended well, in microseconds, added up.
    pub rt_sum_us: u64,
    /// The least of them; `None` where nothing ended well.
    pub rt_min_us: Option<u64>,
    /// Units that prioritised requests borrowed in this window from a half second after it had begun.
    pub occupied: u64,
}

impl Snapshot {
    pub(super) fn new(counts: &Counts, rt_min_us: Option<u64>) -> Self {
        let success = counts.of(Count::Success);
        Self {
            pass: counts.of(Count::Pass),
            block: counts.of(Count::Block),
            exception: counts.of(Count::Exception),
            success,
            rt_sum_us: counts.of(Count::RtSumUs),
            rt_min_us: rt_min_us.filter(|_| success > 0),
            occupied: counts.of(Count::Occupied),
        }
    }

    /// The mean response time in microseconds, rounded down; `None` where nothing ended well.
    ///
    /// ```
    /// use tidegate::{Micros, Statistics, Timestamp};
    ///
    /// let stats = Statistics::with_clock(Timestamp::EPOCH);
    /// stats.success(Micros::from_micros(10));
    /// stats.success(Micros::from_micros(15));
    /// assert_eq!(stats.second().rt_mean_us(), Some(12));
    /// ```
    #[must_use]
    pub const fn rt_mean_us(&self) -> Option<u64> {
        self.rt_sum_us.checked_div(self.success)
    }
}
