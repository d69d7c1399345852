//! The statistics of one resource, and their clock.
//!
//! This is the face of the folder: each verb counts in the history of half seconds (`history`), or reads windows from it
//! (`snapshot`). Limiters and the observer of rules count here too.

use std::time::Duration;

use tidegate_core::{Micros, Timestamp};

use super::half_seconds::number_of;
use super::history::History;
use super::snapshot::Snapshot;
use super::totals::Count;
use crate::clock::{Clock, SystemClock};

/// The statistics of one resource (a rule or a named entry point, never a caller): the units that passed, were blocked,
/// failed and succeeded, and the response times, over the last second and the last minute, and the units in flight.
///
/// Share it by reference or in an `Arc`: every verb takes `&self`. Each verb has a twin that ends
/// in `_at` and takes the time as an argument, for callers that have already read it.
///
/// # Windows
///
/// The last second is two half seconds, the last minute sixty seconds, aligned to the Unix epoch;
/// the current one is incomplete. Counts that have left the window no longer count, even if nothing
/// was counted since. A time in an earlier half second than the latest that any thread has seen
/// counts as the current half second, in counting and in reading. So a late count is neither lost
/// nor counted twice, and after a clock stepped back time stands still until the clock has caught
/// up. (The [`SystemClock`] never steps back.)
///
/// # Threads
///
/// Each count is exact under any concurrency. The counts of a request are made one after the other
/// (the sum of response times, the success, their minimum): a half second that begins between them
/// gets the later ones, except for the minimum, which always goes with the success. A thread that
/// counts waits only for a half second that is just beginning, and the first thread of a half second for a reader, which
/// takes some microseconds.
///
/// # Size
///
/// Each takes about 300 bytes, and 72 for each half second of the last minute in which something was counted: at most nine
/// kilobytes.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Statistics, Timestamp};
///
/// let stats = Statistics::with_clock(Timestamp::EPOCH);
/// let at = |ms: u64| Timestamp::from_micros(ms * 1_000);
/// stats.pass_at(3, at(700));
/// stats.block_at(1, at(1_200));
/// stats.success_at(Duration::from_millis(40), at(1_300));
///
/// let second = stats.second_at(at(1_400)); // 500 to 1,400
/// assert_eq!((second.pass, second.block, second.success), (3, 1, 1));
/// assert_eq!(second.rt_min_us, Some(40_000));
/// assert_eq!(stats.second_at(at(1_600)).pass, 0); // 1,000 to 1,600
/// assert_eq!(stats.minute_at(at(1_600)).pass, 3);
/// ```
#[derive(Debug)]
pub struct Statistics<C = SystemClock> {
    pub(super) history: History,
    pub(super) clock: C,
}

impl Statistics {
    /// Creates statistics that use the system's clock. If there are several, or a gate, clone one
    /// clock: [`Statistics::with_clock`], [`Resources`](crate::Resources).
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }
}

impl Default for Statistics {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> Statistics<C> {
    /// Creates statistics that use `clock`; a [`Timestamp`] is enough if every call passes the
    /// time.
    #[must_use]
    pub fn with_clock(clock: C) -> Self {
        Self { history: History::default(), clock }
    }

    /// Counts `units` that were admitted. Numbers of 2^32 and above are counted as far as the minute's sum stays within
    /// 2^63, as for all counts: so no sum wraps.
    #[inline]
    pub fn pass_at(&self, units: u64, now: Timestamp) {
        self.history.add(Count::Pass, units, now);
    }

    /// Counts `units` that were refused.
    #[inline]
    pub fn block_at(&self, units: u64, now: Timestamp) {
        self.history.add(Count::Block, units, now);
    }

    /// Counts `requests` that ended with an error, or a status of 500 and above.
    #[inline]
    pub fn exception_at(&self, requests: u64, now: Timestamp) {
        self.history.add(Count::Exception, requests, now);
    }

    /// Counts a request that succeeded after `took`. More than 2^48 - 2 microseconds, almost nine
    /// years, count as that.
    #[inline]
    pub fn success_at(&self, took: Duration, now: Timestamp) {
        self.history.complete(now, Micros::from(took).as_micros());
    }

    /// Admits a prioritised request of `units`, now or in the next second. Returns how long it must
    /// be held (zero if it is admitted now, at most one second), or `None`.
    ///
    /// A half second has room if no second of two neighbouring half seconds passes more than
    /// `limit` units, including borrowed ones. Units admitted now count as `pass` now. Units
    /// borrowed from a later half second count as `occupied` now, and as `pass` when it begins; at
    /// most `most` units are borrowed at any time. Borrowed units are not given back.
    ///
    /// No second passes more than `limit` as long as every request uses this verb, ordinary requests with `most` 0;
    /// this also holds with many threads. [`Statistics::pass`] counts units without checking the limit. A request of 0
    /// units is always admitted, takes nothing, and is not counted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Statistics, Timestamp};
    ///
    /// let stats = Statistics::with_clock(Timestamp::EPOCH);
    /// let at = |ms: u64| Timestamp::from_micros(ms * 1_000);
    /// let wait = |ms| Some(Duration::from_millis(ms));
    /// assert_eq!(stats.occupy_at(10, 10, 0, at(400)), wait(0)); // the whole limit
    /// assert_eq!(stats.occupy_at(1, 10, 0, at(600)), None); // an ordinary request
    /// assert_eq!(stats.occupy_at(4, 10, 5, at(600)), wait(400)); // its half second begins at 1,000
    /// assert_eq!(stats.occupy_at(2, 10, 5, at(600)), None); // 6 would be borrowed
    /// assert_eq!(stats.second_at(at(999)).occupied, 4);
    /// assert_eq!(stats.second_at(at(1_000)).pass, 4);
    /// ```
    pub fn occupy_at(&self, units: u64, limit: u64, most: u64, now: Timestamp) -> Option<Duration> {
        if units == 0 {
            // Nothing is taken, but the time counts as seen.
            self.history.reach(now);
            return Some(Duration::ZERO);
        }
        self.history.hold(number_of(now)).occupy(now, units, limit, most).map(Duration::from)
    }

    /// The counts of the last second.
    #[must_use]
    pub fn second_at(&self, now: Timestamp) -> Snapshot {
        self.history.read(now).second()
    }

    /// The counts of the last minute.
    #[must_use]
    pub fn minute_at(&self, now: Timestamp) -> Snapshot {
        self.history.read(now).minute()
    }

    /// The counts of each second of the last minute, all as of one moment: sixty seconds, oldest
    /// first, each with the time at which it began; the last second is incomplete. There are fewer in the first minute
    /// after the epoch.
    #[must_use]
    pub fn seconds_at(&self, now: Timestamp) -> Vec<(Timestamp, Snapshot)> {
        self.history.read(now).seconds()
    }

    /// Requests that began ([`Statistics::entry`], [`Statistics::begin`]) and have not ended.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.history.totals.in_flight()
    }
}

/// The same verbs, at the current time.
impl<C: Clock> Statistics<C> {
    /// [`Statistics::pass_at`], now.
    pub fn pass(&self, units: u64) {
        self.pass_at(units, self.clock.now());
    }

    /// [`Statistics::block_at`], now.
    pub fn block(&self, units: u64) {
        self.block_at(units, self.clock.now());
    }

    /// [`Statistics::exception_at`], now.
    pub fn exception(&self, requests: u64) {
        self.exception_at(requests, self.clock.now());
    }

    /// [`Statistics::success_at`], now.
    pub fn success(&self, took: Duration) {
        self.success_at(took, self.clock.now());
    }

    /// [`Statistics::occupy_at`], now.
    pub fn occupy(&self, units: u64, limit: u64, most: u64) -> Option<Duration> {
        self.occupy_at(units, limit, most, self.clock.now())
    }

    /// [`Statistics::second_at`], now.
    #[must_use]
    pub fn second(&self) -> Snapshot {
        self.second_at(self.clock.now())
    }

    /// [`Statistics::minute_at`], now.
    #[must_use]
    pub fn minute(&self) -> Snapshot {
        self.minute_at(self.clock.now())
    }

    /// [`Statistics::seconds_at`], now.
    #[must_use]
    pub fn seconds(&self) -> Vec<(Timestamp, Snapshot)> {
        self.seconds_at(self.clock.now())
    }
}
