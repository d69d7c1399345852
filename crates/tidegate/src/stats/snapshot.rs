//! The counts of one window, and how windows are read: while no half second can begin.

use tidegate_core::Timestamp;

use super::half_seconds::{HALF_SECOND_US, SECONDS, number_of};
use super::history::{History, Still};
use super::totals::{Count, Counts};

/// The statistics of a resource in one window: the last second, the last minute, or one second of
/// it.
///
/// The counts are units (a request of cost 3 passes 3), response times are microseconds. A time is
/// recorded for each success, so there are `success` of them.
///
/// ```
/// use tidegate::Statistics;
///
/// let search = Statistics::new();
/// search.block(3);
/// drop(search.entry());
/// let minute = search.minute();
/// assert_eq!((minute.pass, minute.block, minute.success), (1, 3, 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Units that were admitted; borrowed units count when their half second begins.
    pub pass: u64,
    /// Units that were refused.
    pub block: u64,
    /// Requests that ended with an error.
    pub exception: u64,
    /// Requests that succeeded.
    pub success: u64,
    /// The sum of the response times of successes, in microseconds.
    pub rt_sum_us: u64,
    /// The shortest response time; `None` if nothing succeeded.
    pub rt_min_us: Option<u64>,
    /// Units that prioritised requests in this window borrowed from a later half second.
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
            // The shortest time may be of a success that came after the counts were read.
            rt_min_us: rt_min_us.filter(|_| success > 0),
            occupied: counts.of(Count::Occupied),
        }
    }

    /// The mean response time in microseconds, rounded down; `None` if nothing succeeded.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Statistics, Timestamp};
    ///
    /// let stats = Statistics::with_clock(Timestamp::EPOCH);
    /// stats.success(Duration::from_micros(10));
    /// stats.success(Duration::from_micros(15));
    /// assert_eq!(stats.second().rt_mean_us(), Some(12));
    /// ```
    #[must_use]
    pub const fn rt_mean_us(&self) -> Option<u64> {
        self.rt_sum_us.checked_div(self.success)
    }
}

impl History {
    /// Reads statistics as of `now`.
    pub(super) fn read(&self, now: Timestamp) -> HistoryReading<'_> {
        let history = self.hold(number_of(now));
        HistoryReading { totals: self.totals.read(), history }
    }
}

/// The totals at one moment, and the totals before.
pub(super) struct HistoryReading<'a> {
    history: Still<'a>,
    totals: Counts,
}

impl HistoryReading<'_> {
    /// The last second: the current half second and its predecessor.
    pub(super) fn second(&self) -> Snapshot {
        self.window(self.history.current.saturating_sub(1), self.history.current)
    }

    /// The last minute: the current second of the clock and the 59 before it.
    pub(super) fn minute(&self) -> Snapshot {
        self.window(2 * self.first_second(), self.history.current)
    }

    /// Each second of the last minute, oldest first, with the time at which it began.
    pub(super) fn seconds(&self) -> Vec<(Timestamp, Snapshot)> {
        (self.first_second()..=self.history.current / 2)
            .map(|second| {
                let began = Timestamp::from_micros(2 * second * HALF_SECOND_US);
                (began, self.window(2 * second, 2 * second + 1))
            })
            .collect()
    }

    /// The oldest second of the last minute; none is before the epoch.
    fn first_second(&self) -> u64 {
        (self.history.current / 2).saturating_sub(SECONDS - 1)
    }

    /// The counts of the half seconds from `first` to `last`; those after the current one are zero.
    fn window(&self, first: u64, last: u64) -> Snapshot {
        let counts = self.ended_with(last).since(&self.history.began_with(first));
        Snapshot::new(&counts, self.history.least_us(first, last))
    }

    /// The totals at the end of half second `number`; the totals now, while it has not ended.
    fn ended_with(&self, number: u64) -> Counts {
        if number < self.history.current {
            self.history.began_with(number + 1)
        } else {
            self.totals
        }
    }
}
