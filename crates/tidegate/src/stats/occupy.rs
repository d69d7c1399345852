//! Borrowing: a request that is over the limit now may be admitted in a later half second.
//!
//! With the half seconds `-1 0 1 2`, 0 being the current one, the seconds that can still grow are
//! the half seconds of two neighbours each: `-1 0`, `0 1`, `1 2`. Units are admitted in the first of 0, 1 and
//! 2 for which no second that contains it would exceed the limit:
//!
//! ```text
//!   limit 10          -1    0    1    2
//!   passed, borrowed   4    6    .    .     3 more: 0 is full (4 + 6 + 3); 1 has room (6 + 3)
//!                      4    6    3    .     2 more: 1 is full (6 + 3 + 2); 2 has room (3 + 2)
//!                      4    6    3    2
//! ```

use tidegate_core::{Micros, Timestamp};

use super::half_seconds::{HALF_SECOND_US, MOST_AHEAD};
use super::history::Still;
use super::totals::Count;

impl Still<'_> {
    /// Borrows `units`; returns how long after `now` their half second begins. Returns `None` if no
    /// second has room, or if more than `most` units would be borrowed.
    pub(super) fn occupy(
        &mut self,
        now: Timestamp,
        units: u64,
        limit: u64,
        most: u64,
    ) -> Option<Micros> {
        // The lock of the history is held, so that two requests do not find the same space.
        let ahead = (0..=MOST_AHEAD).find(|ahead| self.has_space(*ahead, units, limit))?;
        if ahead == 0 {
            self.history.totals.add(Count::Pass, units);
            return Some(Micros::ZERO);
        }
        // A half second further ahead would not help: `most` bounds the units borrowed from all of them.
        if !fits([self.half_seconds.borrowed.all(), units], most) {
            return None;
        }
        self.half_seconds.borrowed.borrow(self.current + ahead, units);
        self.history.totals.add(Count::Occupied, units);
        Some(self.wait_for(ahead, now))
    }

    /// Returns whether the two seconds that contain the half second `ahead` have room for `units` in it.
    fn has_space(&self, ahead: u64, units: u64, limit: u64) -> bool {
        let before = if ahead == 0 { self.passed_before() } else { self.passed(ahead - 1) };
        // Two seconds contain it, and the fuller of them decides.
        // Nothing is borrowed beyond the last half second.
        let neighbour = before.max(self.passed(ahead + 1));
        fits([neighbour, self.passed(ahead), units], limit)
    }

    /// Units that passed in the current half second, or are borrowed from a later one.
    fn passed(&self, ahead: u64) -> u64 {
        match ahead {
            0 => {
                let began_with = self.began_with(self.current);
                self.history.totals.read().since(&began_with).of(Count::Pass)
            }
            1..=MOST_AHEAD => self.half_seconds.borrowed.from(self.current + ahead),
            _ => 0,
        }
    }

    /// Units that passed in the half second before the current one.
    fn passed_before(&self) -> u64 {
        let before = self.began_with(self.current.saturating_sub(1));
        self.began_with(self.current).since(&before).of(Count::Pass)
    }

    /// The time from `now`, or from the beginning of the current half second where `now` is before
    /// it, to the half second `ahead`.
    fn wait_for(&self, ahead: u64, now: Timestamp) -> Micros {
        let began = |number: u64| {
            Timestamp::EPOCH.plus(Micros::from_micros(number.saturating_mul(HALF_SECOND_US)))
        };
        began(self.current + ahead).since(now.max(began(self.current)))
    }
}

/// Returns whether the sum of `parts` is at most `limit`; a sum that overflows is more.
fn fits<const PARTS: usize>(parts: [u64; PARTS], limit: u64) -> bool {
    let sum = parts.into_iter().try_fold(0, u64::checked_add);
    sum.is_some_and(|sum| sum <= limit)
}
