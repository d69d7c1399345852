//! Half seconds, the buckets of windows: their length, the number that is kept, their numbers, and the units borrowed
//! from half seconds that have not begun.

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

/// The number of half seconds ahead for which units can be borrowed: the second after the current half second.
pub(super) const MOST_AHEAD: u64 = 2;

/// Units borrowed from each of the next half seconds, by the number of the half second modulo
/// [`MOST_AHEAD`]: later slots hold none. The history locks them, and counts them as passed when they begin.
#[derive(Debug, Default)]
pub(super) struct Borrowed([u64; MOST_AHEAD as usize]);

impl Borrowed {
    const fn index(number: u64) -> usize {
        (number % MOST_AHEAD) as usize
    }

    /// Units borrowed from half second `number`, one of the next.
    pub(super) const fn from(&self, number: u64) -> u64 {
        self.0[Self::index(number)]
    }

    pub(super) const fn borrow(&mut self, number: u64, units: u64) {
        let borrowed = &mut self.0[Self::index(number)];
        *borrowed = borrowed.saturating_add(units);
    }

    /// Removes and returns the units borrowed from half second `number`, which begins.
    pub(super) const fn take(&mut self, number: u64) -> u64 {
        std::mem::replace(&mut self.0[Self::index(number)], 0)
    }

    pub(super) const fn all(&self) -> u64 {
        self.0[0].saturating_add(self.0[1])
    }
}
