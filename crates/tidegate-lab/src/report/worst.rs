//! The fullest window of any one key, measured on admissions, in bounded memory.
//!
//! A report compares it with the bound that the algorithm promises. `watched.rs` keeps the admissions.

use super::fingerprint::Fingerprint;
use super::name::shortened;
use super::watched::Watched;

/// The maximum number of units that one key was admitted within any half-open interval `(t-W, t]`.
#[derive(Clone, Debug)]
pub struct Worst {
    watched: Watched,
    units: u64,
    key: String,
    ended_at_us: u64,
}

impl Worst {
    /// Watches intervals of length `window_us`, holding at most `most_bytes`.
    pub(super) fn new(window_us: u64, most_bytes: usize) -> Self {
        let watched = Watched::new(window_us, most_bytes);
        Self { watched, units: 0, key: String::new(), ended_at_us: 0 }
    }

    /// Lowers the budget to `most_bytes`, but not below the bytes in use.
    pub(super) fn hold_at_most(&mut self, most_bytes: usize) {
        self.watched.hold_at_most(most_bytes);
    }

    pub(super) fn bytes(&self) -> usize {
        self.watched.bytes()
    }

    /// Counts `units` of a key, requested at `now_us` and admitted (or departed) at `at_us`. Times
    /// of requests never fall, nor do times of admission for one key.
    pub(super) fn record(
        &mut self,
        key: Fingerprint,
        name: impl FnOnce() -> String,
        (now_us, at_us): (u64, u64),
        units: u64,
    ) {
        if units == 0 {
            return;
        }
        let together = self.watched.add(key, now_us, at_us, units);
        if together > self.units {
            self.units = together;
            self.ended_at_us = at_us;
            self.key = shortened(name());
        }
    }

    /// The units of the fullest window; a lower bound of them if anything was [forgotten].
    ///
    /// [forgotten]: Self::forgotten
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// Its key (the first 120 characters of a longer name), and when it ended.
    #[must_use]
    pub fn whose(&self) -> Option<(&str, u64)> {
        (self.units > 0).then_some((self.key.as_str(), self.ended_at_us))
    }

    /// The number of times that memory ran out, and a key or an admission was forgotten within its window.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.watched.forgotten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Fingerprint = Fingerprint::from_words([1, 2, 3]);

    fn record(worst: &mut Worst, at_us: u64, units: u64) {
        worst.record(KEY, || "a".to_owned(), (at_us, at_us), units);
    }

    #[test]
    fn a_unit_admitted_exactly_one_window_ago_has_left() {
        let mut worst = Worst::new(1_000, 1 << 20);
        [0, 500, 1_000, 1_499].into_iter().for_each(|at_us| record(&mut worst, at_us, 1));
        assert_eq!((worst.units(), worst.whose()), (3, Some(("a", 1_499))));
    }

    #[test]
    fn a_key_of_a_megabyte_is_named_by_its_beginning() {
        let mut worst = Worst::new(1_000, 1 << 20);
        worst.record(KEY, || "é".repeat(500_000), (5, 5), 1);
        assert_eq!(worst.whose(), Some((("é".repeat(120) + "…").as_str(), 5)));
    }

    #[test]
    fn nothing_admitted_is_nobodys_window() {
        let mut worst = Worst::new(1_000, 1 << 20);
        record(&mut worst, 5, 0);
        assert_eq!((worst.units(), worst.whose(), worst.forgotten()), (0, None, 0));
    }

    #[test]
    fn without_memory_it_is_the_largest_cost() {
        let mut worst = Worst::new(1_000, 0);
        [3, 7, 5].into_iter().for_each(|units| record(&mut worst, 5, units));
        assert_eq!((worst.units(), worst.forgotten()), (7, 3));
    }

    proptest! {
        #[test]
        fn equals_the_naive_maximum(
            mut times in prop::collection::vec((0..3_000_u64, 0..3_u64), 0..60),
        ) {
            times.sort_unstable();
            let mut worst = Worst::new(1_000, 1 << 20);
            times.iter().for_each(|(at_us, units)| record(&mut worst, *at_us, *units));
            let within = |end: u64| {
                let inside = times.iter().filter(|(at, _)| *at <= end && at + 1_000 > end);
                inside.map(|(_, units)| units).sum::<u64>()
            };
            let naive = times.iter().map(|(at, _)| within(*at)).max().unwrap_or(0);
            prop_assert_eq!(worst.units(), naive);
        }
    }
}
