//! Sorting instants into bins, and choosing how wide a bin is.
//!
//! A report counts requests in bins, and a time axis takes its ticks from the same round lengths.

use super::MAX_BINS;

pub(super) const MS: u64 = 1_000;
pub(super) const SECOND: u64 = 1_000_000;
pub(super) const MINUTE: u64 = 60 * SECOND;
pub(super) const HOUR: u64 = 60 * MINUTE;
pub(super) const DAY: u64 = 24 * HOUR;

/// A number of bins that reads well on a page: each is a few pixels wide.
pub const TARGET_BINS: usize = 200;

/// Fewer bins than this look like blocks instead of a course in time, so a short trace gets empty
/// ones.
const FEWEST_BINS: usize = 24;

/// Equal bins side by side: bin `i` holds times from `start_us + i * bin_us` up to, but without,
/// the beginning of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bins {
    /// When the first bin begins: a multiple of `bin_us`, in microseconds since the epoch.
    pub start_us: u64,
    /// The width of a bin in microseconds, at least 1.
    pub bin_us: u64,
    /// The number of bins, at least 1.
    pub count: usize,
}

impl Bins {
    /// The finest round bins that hold everything from `first_us` to `last_us`, both included,
    /// in at most `target` bins (clamped to 1..=[`MAX_BINS`]; [`TARGET_BINS`] is a good one).
    ///
    /// Edges are multiples of the bin, so they coincide with the edges of aligned windows. A very short span gets empty
    /// bins after it. `last_us` before `first_us` counts as `first_us`. A queue's departures may end long after the
    /// arrivals: cover them as well, or leave late departures out and mention it in the lane's note.
    ///
    /// ```
    /// use tidegate_lab::plot::Bins;
    /// let bins = Bins::cover(59_900_000, 60_700_000, 100);
    /// assert_eq!((bins.start_us, bins.bin_us, bins.count), (59_900_000, 10_000, 81));
    /// ```
    pub fn cover(first_us: u64, last_us: u64, target: usize) -> Self {
        let target = target.clamp(1, MAX_BINS);
        let last_us = last_us.max(first_us);
        // Edges are multiples of the bin, so a span may touch one bin more than its length fills.
        let bin_us = round_durations()
            .find(|bin_us| last_us / bin_us - first_us / bin_us < target as u64)
            .unwrap_or(u64::MAX);
        let used = (last_us / bin_us - first_us / bin_us) as usize + 1;
        let count = used.max(FEWEST_BINS.min(target));
        Self { start_us: first_us / bin_us * bin_us, bin_us, count }.within_time(used)
    }

    /// Removes the added bins that would end after the last microsecond.
    fn within_time(self, used: usize) -> Self {
        let end = u128::from(self.start_us) + u128::from(self.bin_us) * self.count as u128;
        let count = if end > u128::from(u64::MAX) { used } else { self.count };
        Self { count, ..self }
    }

    /// The bin that holds `at_us`, or `None` outside of all bins.
    pub fn index(&self, at_us: u64) -> Option<usize> {
        let bin = at_us.checked_sub(self.start_us)?.checked_div(self.bin_us)?;
        usize::try_from(bin).ok().filter(|bin| *bin < self.count)
    }

    /// Adds `n` to the count of the bin that holds `at_us`; returns false, and adds nothing, if no
    /// bin does or `counts` is too short. Counts stay at the highest value instead of wrapping.
    pub fn add(&self, counts: &mut [u64], at_us: u64, n: u64) -> bool {
        let Some(count) = self.index(at_us).and_then(|bin| counts.get_mut(bin)) else {
            return false;
        };
        *count = count.saturating_add(n);
        true
    }

    /// A count of zero for each bin.
    pub fn zeros(&self) -> Vec<u64> {
        vec![0; self.count]
    }

    /// The number of `times_us` that fall into each bin; times outside of all bins are left out.
    pub fn tally(&self, times_us: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut counts = self.zeros();
        for at_us in times_us {
            self.add(&mut counts, at_us, 1);
        }
        counts
    }
}

/// The finest round width, in microseconds, that divides `span_us` into at most `target` bins (0
/// counts as 1). Round widths are 1, 2, 5 times a power of ten up to a second; 1, 2, 5, 10, 15, 30
/// s and min; 1, 2, 3, 6, 12 h; and 1, 2, 5 times a power of ten days.
///
/// ```
/// use tidegate_lab::plot::bin_width;
/// assert_eq!(bin_width(3_600_000_000, 200), 30_000_000); // an hour: 120 bins of 30 s
/// ```
pub fn bin_width(span_us: u64, target: usize) -> u64 {
    let target = target.max(1) as u64;
    round_durations().find(|bin_us| span_us.div_ceil(*bin_us) <= target).unwrap_or(u64::MAX)
}

/// All round durations in microseconds, rising; for bins and for the ticks of a time axis.
pub(super) fn round_durations() -> impl Iterator<Item = u64> {
    let seconds = [1, 2, 5, 10, 15, 30].map(|n| n * SECOND);
    let minutes = [1, 2, 5, 10, 15, 30].map(|n| n * MINUTE);
    let hours = [1, 2, 3, 6, 12].map(|n| n * HOUR);
    let below_a_second = decades(1).take_while(|step| *step < SECOND);
    below_a_second.chain(seconds).chain(minutes).chain(hours).chain(decades(DAY))
}

/// 1, 2, 5, 10, 20, 50, ... times `unit`, until 64 bits are full.
fn decades(unit: u64) -> impl Iterator<Item = u64> {
    let powers = std::iter::successors(Some(unit), |power| power.checked_mul(10));
    powers.flat_map(|power| [1, 2, 5].into_iter().filter_map(move |n| power.checked_mul(n)))
}
