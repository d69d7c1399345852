//! The units that one key was admitted within its last window.
//!
//! `RecentByKey` has such an entry for each key, so its size matters.

use std::collections::VecDeque;

/// The time of an admission, and its units.
type AdmittedAt = (u64, u64);

const PAIR_BYTES: usize = size_of::<AdmittedAt>();
/// Bytes that several pairs take in addition to the pairs; the allocator adds about 16 to each of
/// two parts.
const MANY_BYTES: usize = size_of::<Many>() + 2 * 16;
/// The capacity of the first allocation, in pairs.
const FIRST_PAIRS: usize = 4;

/// The admissions of one key that are still in the window. Most keys of a large log have one
/// admission in a window, so one is kept without memory of its own.
#[derive(Clone, Debug)]
pub(super) enum RecentAdmissions {
    /// One pair; it is empty if its units are 0.
    One {
        units: u32,
        at_us: u64,
    },
    Many(Box<Many>),
}

/// Pairs in order of time, and the sum of their units.
#[derive(Clone, Debug, Default)]
pub(super) struct Many {
    pairs: VecDeque<AdmittedAt>,
    units: u64,
}

impl RecentAdmissions {
    pub(super) const NONE: Self = Self::One { units: 0, at_us: 0 };

    pub(super) fn units(&self) -> u64 {
        match self {
            Self::One { units, .. } => u64::from(*units),
            Self::Many(many) => many.units,
        }
    }

    /// The time of the last pair; 0 if there is none.
    pub(super) fn last_us(&self) -> u64 {
        match self {
            Self::One { at_us, .. } => *at_us,
            Self::Many(many) => many.pairs.back().map_or(0, |(at_us, _)| *at_us),
        }
    }

    /// Bytes of memory of its own.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::One { .. } => 0,
            Self::Many(many) => MANY_BYTES + many.pairs.capacity() * PAIR_BYTES,
        }
    }

    /// The number of bytes that the next [`Self::add`] takes in addition.
    pub(super) fn growth(&self, at_us: u64, units: u64) -> usize {
        match self {
            Self::One { .. } if self.stays_one(at_us, units) => 0,
            // The pair that is there and the next pair both fit into the first allocation.
            Self::One { .. } => MANY_BYTES + FIRST_PAIRS * PAIR_BYTES,
            Self::Many(many) => many.growth(at_us) * PAIR_BYTES,
        }
    }

    /// Drops admissions that have left the window `(at_us - window_us, at_us]`.
    pub(super) fn drop_left(&mut self, at_us: u64, window_us: u64) {
        match self {
            Self::One { at_us: then, .. } if at_us.saturating_sub(*then) < window_us => {}
            Self::One { .. } => *self = Self::NONE,
            Self::Many(many) => many.drop_left(at_us, window_us),
        }
    }

    /// Drops the oldest pair, even if it has not left the window.
    pub(super) fn drop_oldest(&mut self) {
        match self {
            Self::One { .. } => *self = Self::NONE,
            Self::Many(many) => many.drop_first(),
        }
    }

    /// Adds units at a time that is not before any recorded one.
    pub(super) fn add(&mut self, at_us: u64, units: u64) {
        if self.stays_one(at_us, units) {
            let units = self.units().saturating_add(units);
            *self = Self::One { units: u32::try_from(units).unwrap_or(u32::MAX), at_us };
            return;
        }
        if let Self::One { units, at_us } = *self {
            // The earlier pair moves first, because pairs are in order of time.
            *self = Self::Many(Box::default());
            self.add_pair(at_us, u64::from(units));
        }
        self.add_pair(at_us, units);
    }

    fn stays_one(&self, at_us: u64, more: u64) -> bool {
        match self {
            Self::One { units, at_us: then } => {
                // Admissions at one instant are summed; a sum above 32 bits has no place here.
                let fits = u32::try_from(u64::from(*units).saturating_add(more)).is_ok();
                fits && (*units == 0 || *then == at_us)
            }
            Self::Many(_) => false,
        }
    }

    fn add_pair(&mut self, at_us: u64, units: u64) {
        // A `One` without units was empty, and has no pair that could move.
        if let Self::Many(many) = self
            && units > 0
        {
            many.add(at_us, units);
        }
    }
}

impl Many {
    /// By how many pairs a full vector grows: a quarter, which wastes less than doubling.
    fn growth(&self, at_us: u64) -> usize {
        let joins = self.pairs.back().is_some_and(|(then, _)| *then == at_us);
        let full = self.pairs.len() == self.pairs.capacity();
        if joins || !full { 0 } else { FIRST_PAIRS.max(self.pairs.capacity() / 4) }
    }

    fn add(&mut self, at_us: u64, units: u64) {
        // Exactly as many as `growth` says, because the budget was asked for these.
        self.pairs.reserve_exact(self.growth(at_us));
        self.units = self.units.saturating_add(units);
        match self.pairs.back_mut() {
            Some((then, more)) if *then == at_us => *more = more.saturating_add(units),
            _ => self.pairs.push_back((at_us, units)),
        }
    }

    fn drop_left(&mut self, at_us: u64, window_us: u64) {
        while let Some((then, _)) = self.pairs.front()
            && at_us.saturating_sub(*then) >= window_us
        {
            self.drop_first();
        }
        // Memory of a burst long ago is freed.
        if self.pairs.capacity() > 64 && self.pairs.len() < self.pairs.capacity() / 4 {
            // With as much free space, so that the next admission does not allocate again.
            self.pairs.shrink_to(2 * self.pairs.len());
        }
    }

    fn drop_first(&mut self) {
        let units = self.pairs.pop_front().map_or(0, |(_, units)| units);
        self.units = self.units.saturating_sub(units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn holds_what_is_in_the_window_and_says_what_it_takes(
            mut times in prop::collection::vec((0..500_u64, 1..3_000_000_000_u64), 0..80),
            window_us in 0..200_u64,
        ) {
            times.sort_unstable();
            let mut recent = RecentAdmissions::NONE;
            for (index, &(at_us, units)) in times.iter().enumerate() {
                recent.drop_left(at_us, window_us);
                let foretold = recent.bytes() + recent.growth(at_us, units);
                recent.add(at_us, units);
                let inside = times[..index].iter().filter(|(then, _)| at_us - then < window_us);
                prop_assert_eq!(recent.units(), inside.map(|(_, units)| units).sum::<u64>() + units);
                prop_assert_eq!(recent.last_us(), at_us);
                prop_assert_eq!(recent.bytes(), foretold);
            }
        }
    }

    #[test]
    fn a_burst_long_ago_keeps_no_memory() {
        let mut recent = RecentAdmissions::NONE;
        (0..10_000).for_each(|at_us| recent.add(at_us, 1));
        assert!(recent.bytes() >= 10_000 * PAIR_BYTES);
        recent.drop_left(20_000, 1_000);
        assert_eq!(recent.units(), 0);
        assert!(recent.bytes() < 1_000, "{}", recent.bytes());
    }

    #[test]
    fn the_oldest_can_be_dropped_before_its_time() {
        let mut recent = RecentAdmissions::NONE;
        [1, 2, 3].into_iter().for_each(|at_us| recent.add(at_us, at_us));
        recent.drop_oldest();
        assert_eq!((recent.units(), recent.last_us()), (5, 3));
    }
}
