//! The shortest response time of the current half second. A minimum is not a difference of totals, so it has a word of
//! its own.
//!
//! The word is a tag, made of the number of the half second, and the shortest time so far. A thread so late that another
//! half second is current finds another tag, and leaves the word unchanged.

use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire};

const TIME_BITS: u32 = 48;

/// No time yet; greater than every time.
const NONE: u64 = (1 << TIME_BITS) - 1;

/// The longest response time that is distinguished, in microseconds: almost nine years.
pub(super) const LONGEST_US: u64 = NONE - 1;

/// The number of a half second, in the bits above the time. It repeats after 2^16 half seconds, nine hours, and no thread
/// is that late.
const fn tag(number: u64) -> u64 {
    number << TIME_BITS
}

/// The shortest response time of the current half second.
#[derive(Debug)]
pub(super) struct Least(AtomicU64);

impl Default for Least {
    /// Of half second 0, without a time.
    fn default() -> Self {
        Self(AtomicU64::new(NONE))
    }
}

impl Least {
    /// Starts half second `number` without a time. Returns the shortest time of the half second before.
    pub(super) fn begin(&self, number: u64) -> Option<u64> {
        time_of(self.0.swap(tag(number) | NONE, AcqRel))
    }

    /// Lowers the shortest time to `us`; returns false if this is not half second `number` any more.
    pub(super) fn lower(&self, number: u64, us: u64) -> bool {
        let lowered = tag(number) | us.min(LONGEST_US);
        let mut word = self.0.load(Acquire);
        loop {
            if (word ^ lowered) >> TIME_BITS != 0 {
                return false;
            }
            if lowered >= word {
                return true;
            }
            match self.0.compare_exchange_weak(word, lowered, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(other) => word = other,
            }
        }
    }

    /// The shortest time, in microseconds; `None` if there was none.
    pub(super) fn us(&self) -> Option<u64> {
        time_of(self.0.load(Acquire))
    }
}

/// The time in a word.
fn time_of(word: u64) -> Option<u64> {
    let us = word & NONE;
    (us != NONE).then_some(us)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_least_stays() {
        let least = Least::default();
        assert_eq!(least.us(), None);
        assert!([7, 9, 3, 3, 5].into_iter().all(|us| least.lower(0, us)));
        assert_eq!(least.us(), Some(3));
    }

    #[test]
    fn a_time_of_a_half_second_that_ended_changes_nothing() {
        let least = Least::default();
        assert!(least.lower(0, 2));
        assert_eq!(least.begin(5), Some(2));
        assert!(!least.lower(0, 1));
        assert_eq!(least.us(), None);
        assert!(least.lower(5, 4));
        assert_eq!(least.begin(6), Some(4));
    }

    #[test]
    fn a_time_of_zero_and_one_of_ages_are_times() {
        let least = Least::default();
        assert!(least.lower(0, u64::MAX));
        assert_eq!(least.us(), Some(LONGEST_US));
        assert!(least.lower(0, 0));
        assert_eq!(least.us(), Some(0));
    }
}
