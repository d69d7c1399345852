//! Half seconds, the buckets of windows: their length, the number that is kept, and their numbers.

use tidegate_core::Timestamp;

/// The length of each bucket.
pub(super) const HALF_SECOND_US: u64 = 500_000;

/// Seconds of the long window. The model checker has time for two.
pub(super) const SECONDS: u64 = if cfg!(loom) { 2 } else { 60 };

/// Half seconds of the long window, including the current one.
const HALF_SECONDS: u64 = 2 * SECONDS;

/// The number of the half second that contains a time: the first begins at the epoch.
#[inline]
pub(super) const fn number_of(now: Timestamp) -> u64 {
    now.as_micros() / HALF_SECOND_US
}

/// The oldest half second that is kept while half second `current` is the current one.
pub(super) const fn oldest_kept(current: u64) -> u64 {
    current.saturating_sub(HALF_SECONDS - 1)
}
