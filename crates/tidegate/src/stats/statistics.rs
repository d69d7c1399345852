//! The statistics of one resource, and the clock they are kept by.

use tidegate_core::{Micros, Timestamp};

use super::half_seconds::number_of;
use super::ring::Ring;
use super::snapshot::Snapshot;
use super::totals::Count;
use crate::clock::{Clock, SystemClock};

/// The figures of one resource (a rule or a named entry point, never a caller): what passed, was
/// blocked, failed, succeeded and how fast, over the last second and the last minute, and how much is
/// in flight.
///
/// Share it by reference or in an `Arc`: every verb takes `&self`. Each verb has a twin that ends in
/// `_at` and is told the time, for callers that have read it already.
///
/// # Windows
///
/// The last second is two half seconds, the last minute sixty seconds, aligned to the Unix epoch; the
/// current one is counted as far as it has come. What has left the window counts no more, also when
/// nothing was counted since. Of a time that lies in an earlier half second than one already seen,
/// whoever saw it, the current half second is taken instead, to count in and to read: a count that
/// comes late is not lost and not counted twice, and when a clock steps back time stands still until
/// it has caught up. (The [`SystemClock`] never steps back.)
///
/// # Threads
///
/// Each count is exact under any concurrency. A request's counts are made one after the other (the sum
/// of response times, the success, their minimum): a half second that begins between them has the
/// later ones, the minimum aside, which always goes where the success went. Nobody waits for a reader;
/// who counts waits only for a half second that is just beginning.
///
/// # Size
///
/// About seven kilobytes each, whatever is counted.
///
/// ```
/// use tidegate::{Micros, Statistics, Timestamp};
///
/// let stats = Statistics::with_clock(Timestamp::EPOCH);
/// let at = |ms: u64| Timestamp::from_micros(ms * 1_000);
/// stats.pass_at(3, at(700));
/// stats.block_at(1, at(1_200));
/// stats.success_at(Micros::from_millis(40), at(1_300));
///
/// let second = stats.second_at(at(1_400)); // 500 to 1,400
/// assert_eq!((second.pass, second.block, second.success), (3, 1, 1));
/// assert_eq!(second.rt_min_us, Some(40_000));
/// assert_eq!(stats.second_at(at(1_600)).pass, 0); // 1,000 to 1,600
/// assert_eq!(stats.minute_at(at(1_600)).pass, 3);
/// ```
#[derive(Debug)]
pub struct Statistics<C = SystemClock> {
    pub(super) ring: Ring,
    pub(super) clock: C,
}

impl Statistics {
    /// Statistics by the system's clock. Where there are several, or a gate, clone one clock:
    /// [`Statistics::with_clock`], [`Resources`](crate::Resources).
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
    /// Statistics by `clock`; a [`Timestamp`] will do where every verb is told the time.
    #[must_use]
    pub fn with_clock(clock: C) -> Self {
        Self { ring: Ring::default(), clock }
    }

    /// Counts `units` that were admitted. Units of a window beyond 2^64 wrap, as all counts do.
    #[inline]
    pub fn pass_at(&self, units: u64, now: Timestamp) {
        self.count(Count::Pass, units, now);
    }

    /// Counts `units` that were refused.
    #[inline]
    pub fn block_at(&self, units: u64, now: Timestamp) {
        self.count(Count::Block, units, now);
    }

    /// Counts `requests` that ended with an error, or a status of 500 and above.
    #[inline]
    pub fn exception_at(&self, requests: u64, now: Timestamp) {
        self.count(Count::Exception, requests, now);
    }

    /// Counts a request that ended well after `took`. More than 2^48 - 2 microseconds, almost nine
    /// years, count as that.
    #[inline]
    pub fn success_at(&self, took: Micros, now: Timestamp) {
        self.ring.complete(now, took.as_micros());
    }

    /// A place for a prioritised request of `units`, now or in the next second: how long it must be
    /// held until its place begins (zero when it has one now, at most one second), or none.
    ///
    /// The half seconds that have room are those where no second, of two neighbouring half seconds,
    /// passes more than `limit` units, what is borrowed counted in. A place now counts as `pass` at
    /// once. A place ahead counts as `occupied` at once, and as `pass` when its half second begins; of
    /// such there are at most `most` units at any time. Units that were taken are not given back.
    ///
    /// No second passes more than `limit` while every request comes in by this verb, ordinary ones with
    /// `most` 0: also with many threads. What is counted by [`Statistics::pass`] is counted, not asked
    /// about. A request of 0 units has a place at once, takes nothing, and counts as nothing.
    ///
    /// ```
    /// use tidegate::{Micros, Statistics, Timestamp};
    ///
    /// let stats = Statistics::with_clock(Timestamp::EPOCH);
    /// let at = |ms: u64| Timestamp::from_micros(ms * 1_000);
    /// let wait = |ms| Some(Micros::from_millis(ms));
    /// assert_eq!(stats.occupy_at(10, 10, 0, at(400)), wait(0)); // the whole limit
    /// assert_eq!(stats.occupy_at(1, 10, 0, at(600)), None); // an ordinary request
    /// assert_eq!(stats.occupy_at(4, 10, 5, at(600)), wait(400)); // its place begins at 1,000
    /// assert_eq!(stats.occupy_at(2, 10, 5, at(600)), None); // 6 would be borrowed
    /// assert_eq!(stats.second_at(at(999)).occupied, 4);
    /// assert_eq!(stats.second_at(at(1_000)).pass, 4);
    /// ```
    pub fn occupy_at(&self, units: u64, limit: u64, most: u64, now: Timestamp) -> Option<Micros> {
        if units == 0 {
            self.ring.reach(now);
            return Some(Micros::ZERO);
        }
        self.ring.hold(number_of(now)).occupy(now, units, limit, most)
    }

    /// What was counted in the last second.
    #[must_use]
    pub fn second_at(&self, now: Timestamp) -> Snapshot {
        self.ring.read(now, |reading| reading.second())
    }

    /// What was counted in the last minute.
    #[must_use]
    pub fn minute_at(&self, now: Timestamp) -> Snapshot {
        self.ring.read(now, |reading| reading.minute())
    }

    /// What was counted in each second of the last minute, all as of one moment: sixty seconds, oldest
    /// first, each with the time at which it began, the last of them as far as it has come. Fewer in
    /// the first minute after the epoch.
    #[must_use]
    pub fn seconds_at(&self, now: Timestamp) -> Vec<(Timestamp, Snapshot)> {
        self.ring.read(now, |reading| reading.seconds())
    }

    /// Requests that began ([`Statistics::entry`], [`Statistics::begin`]) and have not ended.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.ring.totals.in_flight()
    }

    #[inline]
    fn count(&self, what: Count, amount: u64, now: Timestamp) {
        self.ring.reach(now);
        self.ring.totals.add(what, amount);
    }
}

/// The same, now.
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
    pub fn success(&self, took: Micros) {
        self.success_at(took, self.clock.now());
    }

    /// [`Statistics::occupy_at`], now.
    pub fn occupy(&self, units: u64, limit: u64, most: u64) -> Option<Micros> {
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
