//! Readings of the ring while one half second is current.

use tidegate_core::Timestamp;

use super::half_seconds::{HALF_SECOND_US, SECONDS};
use super::ring::Ring;
use super::snapshot::Snapshot;
use super::totals::Counts;

impl Ring {
    /// Calls `look` with the statistics as of `now` until no half second begins during the call.
    pub(super) fn read<T>(&self, now: Timestamp, look: impl Fn(RingReading<'_>) -> T) -> T {
        self.reach(now);
        loop {
            let before = self.settled();
            let seen = look(RingReading::new(self, before >> 1));
            // A half second that began during the look may have taken a slot that was read.
            if self.is_at(before) {
                return seen;
            }
        }
    }
}

/// The totals at one moment, and the ring with the totals before.
pub(super) struct RingReading<'a> {
    ring: &'a Ring,
    current: u64,
    totals: Counts,
}

impl<'a> RingReading<'a> {
    /// The totals now, while half second `current` is the current one.
    pub(super) fn new(ring: &'a Ring, current: u64) -> Self {
        Self { ring, current, totals: ring.totals.read() }
    }

    /// The last second: the current half second and its predecessor.
    pub(super) fn second(self) -> Snapshot {
        self.window(self.current.saturating_sub(1), self.current)
    }

    /// The last minute: the current second of the clock and the 59 before it.
    pub(super) fn minute(self) -> Snapshot {
        self.window(2 * self.first_second(), self.current)
    }

    /// Each second of the last minute, oldest first, with the time at which it began.
    pub(super) fn seconds(self) -> Vec<(Timestamp, Snapshot)> {
        (self.first_second()..=self.current / 2)
            .map(|second| {
                let began = Timestamp::from_micros(2 * second * HALF_SECOND_US);
                (began, self.window(2 * second, 2 * second + 1))
            })
            .collect()
    }

    /// The oldest second of the last minute; none is before the epoch.
    fn first_second(&self) -> u64 {
        (self.current / 2).saturating_sub(SECONDS - 1)
    }

    /// The counts of the half seconds from `first` to `last`; those after the current one are zero.
    fn window(&self, first: u64, last: u64) -> Snapshot {
        let counts = self.ended_with(last).since(&self.ring.began_with(first));
        let least = (first..=last.min(self.current)).filter_map(|half| self.ring.least_us(half));
        Snapshot::new(&counts, least.min())
    }

    /// The totals at the end of half second `number`; the totals now, while it has not ended.
    fn ended_with(&self, number: u64) -> Counts {
        if number < self.current { self.ring.began_with(number + 1) } else { self.totals }
    }
}
