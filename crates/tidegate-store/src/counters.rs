//! Counters on several cache lines, so that threads which count do not wait for each other; and histograms of durations.
//!
//! For counts that many threads add to and few read: outcomes by rule, durations, and the counters of the server.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;
use std::{array, thread};

/// The largest number of stripes, a power of two: more threads share them.
const MOST_STRIPES: usize = 8;
/// The amount that a counter reaches before there are stripes: counters that are seldom used take a fraction of the
/// memory.
const BEFORE_STRIPES: u64 = 256;

/// The largest duration of each bucket, in microseconds; those above the last are in one more bucket.
const BOUNDS_US: [u64; BOUNDS] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];
const BOUNDS: usize = 13;
/// The buckets, and the sum of all durations after them.
const COUNTERS: usize = BOUNDS + 2;
const SUM_US: usize = BOUNDS + 1;

/// `N` counters. Each is the sum over stripes, and a thread uses one stripe. Counters wrap. The number of stripes is a
/// power of two, so that finding the stripe of a thread takes no division.
#[derive(Debug)]
pub struct Striped<const N: usize> {
    /// The counts until there are stripes.
    first: [AtomicU64; N],
    stripes: OnceLock<Box<[Stripe<N>]>>,
}

/// One number for each counter, on cache lines of its own; the processor fetches them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Striped<N> {
    fn default() -> Self {
        Self { first: array::from_fn(|_| AtomicU64::new(0)), stripes: OnceLock::new() }
    }
}

impl<const N: usize> Striped<N> {
    /// Adds to one counter. A number without a counter is ignored.
    #[inline]
    pub fn add(&self, counter: usize, amount: u64) {
        let Some(stripes) = self.stripes.get() else { return self.add_to_first(counter, amount) };
        // The number of stripes is a power of two.
        let stripe = stripes.get(number_of_thread() & stripes.len().saturating_sub(1));
        if let Some(number) = stripe.and_then(|stripe| stripe.0.get(counter)) {
            number.fetch_add(amount, Relaxed);
        }
    }

    #[cold]
    fn add_to_first(&self, counter: usize, amount: u64) {
        let Some(number) = self.first.get(counter) else { return };
        let before = number.fetch_add(amount, Relaxed);
        if before.saturating_add(amount) >= BEFORE_STRIPES {
            self.stripes.get_or_init(stripes);
        }
    }

    /// Returns all counters.
    pub fn read(&self) -> [u64; N] {
        let mut sums = self.first.each_ref().map(|number| number.load(Relaxed));
        for Stripe(numbers) in self.stripes.get().into_iter().flatten() {
            for (sum, number) in sums.iter_mut().zip(numbers) {
                *sum = sum.wrapping_add(number.load(Relaxed));
            }
        }
        sums
    }
}

/// Empty stripes for the threads that this machine runs at a time.
fn stripes<const N: usize>() -> Box<[Stripe<N>]> {
    // Asked once, because the answer is in files of the system.
    static STRIPES: LazyLock<usize> = LazyLock::new(|| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        threads.next_power_of_two().min(MOST_STRIPES)
    });
    (0..*STRIPES).map(|_| Stripe(array::from_fn(|_| AtomicU64::new(0)))).collect()
}

/// The number of this thread, in the order in which threads first counted.
#[inline]
fn number_of_thread() -> usize {
    const NONE: usize = usize::MAX;
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(NONE) };
    }
    match NUMBER.get() {
        NONE => {
            let number = THREADS.fetch_add(1, Relaxed);
            NUMBER.set(number);
            number
        }
        number => number,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_threads_count_is_summed() {
        let counters = Striped::<3>::default();
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..100).for_each(|_| counters.add(1, 2)));
            }
        });
        counters.add(2, 5);
        counters.add(3, 7);
        assert_eq!(counters.read(), [0, 4_000, 5]);
    }

    #[test]
    fn few_counts_take_no_stripes() {
        let counters = Striped::<2>::default();
        counters.add(0, BEFORE_STRIPES - 1);
        assert!(counters.stripes.get().is_none());
        counters.add(0, 1);
        assert!(counters.stripes.get().is_some());
        counters.add(0, 1);
        assert_eq!(counters.read(), [BEFORE_STRIPES + 1, 0]);
    }

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
