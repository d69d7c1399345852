//! A histogram of durations with fixed bounds, for the calls to a store and for the server.

use std::time::Duration;

use super::striped::Striped;

/// The largest duration of each bucket, in microseconds; those above the last are in one more bucket.
const BOUNDS_US: [u64; BOUNDS] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];
const BOUNDS: usize = 13;
/// The buckets, and the sum of all durations after them.
const COUNTERS: usize = BOUNDS + 2;
const SUM_US: usize = BOUNDS + 1;

/// Counts durations by size.
#[derive(Debug, Default)]
pub struct Histogram(Striped<COUNTERS>);

/// The number of durations that were counted, by size, and their sum. The sizes are upper bounds from 50 microseconds to one
/// second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations([u64; COUNTERS]);

impl Histogram {
    /// Counts a duration `times` times.
    #[inline]
    pub fn add(&self, duration_us: u64, times: u64) {
        self.0.add(BOUNDS_US.partition_point(|bound| *bound < duration_us), times);
        // Not in one step with the count: a reader may see a duration before its sum.
        self.0.add(SUM_US, duration_us.saturating_mul(times));
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn read(&self) -> Durations {
        Durations(self.0.read())
    }
}

impl Durations {
    /// The bounds, each with the number of durations above the previous bound, up to this bound; the last is `None`,
    /// with the durations above all bounds.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bounds = BOUNDS_US.iter().map(|bound| Some(Duration::from_micros(*bound)));
        // The sum, which comes after the buckets, has no bound to go with it.
        bounds.chain([None]).zip(self.0)
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets().fold(0, |sum: u64, (_, count)| sum.wrapping_add(count))
    }

    /// The sum of all durations.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        Duration::from_micros(self.0[SUM_US])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_that_is_not_below_it() {
        let histogram = Histogram::default();
        for (duration_us, times) in [(0, 1), (50, 2), (51, 4), (1_000_000, 8), (1_000_001, 16)] {
            histogram.add(duration_us, times);
        }
        let read = histogram.read();
        let filled: Vec<_> = read.buckets().filter(|(_, count)| *count > 0).collect();
        let us = |us| Some(Duration::from_micros(us));
        assert_eq!(filled, [(us(50), 3), (us(100), 4), (us(1_000_000), 8), (None, 16)]);
        assert_eq!(read.count(), 31);
        assert_eq!(read.sum(), Duration::from_micros(2 * 50 + 4 * 51 + 8_000_000 + 16_000_016));
    }
}
