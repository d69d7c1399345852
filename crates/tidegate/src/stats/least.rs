//! The shortest response time of one half second. A minimum is not a difference of totals, so it has a word of its own.
//!
//! The word is a tag, the round of the ring that the half second is in, and the shortest time so far. A thread so late
//! that the slot belongs to another half second finds another tag, and leaves it unchanged.

use super::half_seconds::SLOTS;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire};

const TIME_BITS: u32 = 48;

/// No time yet; greater than every time.
const NONE: u64 = (1 << TIME_BITS) - 1;

/// The longest response time that is distinguished, in microseconds: almost nine years.
pub(super) const LONGEST_US: u64 = NONE - 1;

/// The round of half second `number`, in the bits above the time. It repeats after 2^16 rounds,
/// more than 48 days, and no thread is that late.
const fn tag(number: u64) -> u64 {
    (number / SLOTS as u64) << TIME_BITS
}

/// The shortest response time of a half second.
#[derive(Debug)]
pub(super) struct Least(AtomicU64);

impl Default for Least {
    /// In the first round, without a time.
    fn default() -> Self {
        Self(AtomicU64::new(NONE))
    }
}

impl Least {
    /// Starts half second `number` without a time.
    pub(super) fn begin(&self, number: u64) {
        self.0.swap(tag(number) | NONE, AcqRel);
    }

    /// Lowers the shortest time to `us`, unless this is not half second `number` any more.
    pub(super) fn lower(&self, number: u64, us: u64) {
        let lowered = tag(number) | us.min(LONGEST_US);
        // Only while the tags are the same: a slot that was begun again belongs to a later half second.
        let mut word = self.0.load(Acquire);
        while (word ^ lowered) >> TIME_BITS == 0 && lowered < word {
            match self.0.compare_exchange_weak(word, lowered, AcqRel, Acquire) {
                Ok(_) => return,
                Err(other) => word = other,
            }
        }
    }

    /// The shortest time, in microseconds; `None` if there was none.
    pub(super) fn us(&self) -> Option<u64> {
        let us = self.0.load(Acquire) & NONE;
        (us != NONE).then_some(us)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_least_stays() {
        let least = Least::default();
        assert_eq!(least.us(), None);
        [7, 9, 3, 3, 5].into_iter().for_each(|us| least.lower(1, us));
        assert_eq!(least.us(), Some(3));
    }

    #[test]
    fn who_comes_a_round_late_changes_nothing() {
        let (least, next_round) = (Least::default(), 5 + SLOTS as u64);
        least.lower(5, 2);
        least.begin(next_round);
        least.lower(5, 1);
        assert_eq!(least.us(), None);
        least.lower(next_round, 4);
        assert_eq!(least.us(), Some(4));
    }

    #[test]
    fn a_time_of_zero_and_one_of_ages_are_times() {
        let least = Least::default();
        least.lower(0, u64::MAX);
        assert_eq!(least.us(), Some(LONGEST_US));
        least.lower(0, 0);
        assert_eq!(least.us(), Some(0));
    }
}
