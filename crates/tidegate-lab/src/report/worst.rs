//! The fullest window that any one key saw, measured on what was admitted, in bounded memory.

use std::collections::{HashMap, VecDeque};

/// Most (time, units) pairs remembered over all keys: about 64 MiB.
const MOST_PAIRS: usize = 4_000_000;

/// The most units that one key was admitted within any half-open interval `(t-W, t]`.
#[derive(Clone, Debug)]
pub struct Worst {
    window_us: u64,
    most_pairs: usize,
    pairs: usize,
    recent: HashMap<String, Recent>,
    units: u64,
    key: String,
    ended_at_us: u64,
    overlooked: u64,
}

/// What one key was admitted within the last window.
#[derive(Clone, Debug, Default)]
struct Recent {
    admitted: VecDeque<(u64, u64)>,
    units: u64,
}

impl Recent {
    /// Drops what had left the window by `at_us`; answers how many pairs.
    fn forget(&mut self, at_us: u64, window_us: u64) -> usize {
        let before = self.admitted.len();
        while let Some((_, units)) =
            self.admitted.pop_front_if(|(then, _)| *then + window_us <= at_us)
        {
            self.units -= units;
        }
        before - self.admitted.len()
    }
}

impl Worst {
    /// Watches intervals of length `window_us`.
    #[must_use]
    pub fn new(window_us: u64) -> Self {
        Self::with_memory_for(window_us, MOST_PAIRS)
    }

    fn with_memory_for(window_us: u64, most_pairs: usize) -> Self {
        Self {
            window_us,
            most_pairs,
            pairs: 0,
            recent: HashMap::new(),
            units: 0,
            key: String::new(),
            ended_at_us: 0,
            overlooked: 0,
        }
    }

    /// `units` of `key` were admitted at `at_us` (or left then); times of one key never fall.
    pub fn record(&mut self, key: &str, at_us: u64, units: u64) {
        if units == 0 {
            return;
        }
        if self.pairs >= self.most_pairs {
            self.forget_all(at_us);
        }
        if !self.recent.contains_key(key) {
            if self.pairs >= self.most_pairs {
                self.overlooked += 1;
                return;
            }
            self.recent.insert(key.to_owned(), Recent::default());
        }
        let Some(recent) = self.recent.get_mut(key) else {
            return;
        };
        self.pairs -= recent.forget(at_us, self.window_us);
        match recent.admitted.back_mut() {
            Some((then, more)) if *then == at_us => *more += units,
            _ => {
                recent.admitted.push_back((at_us, units));
                self.pairs += 1;
            }
        }
        recent.units += units;
        if recent.units > self.units {
            (self.units, self.ended_at_us) = (recent.units, at_us);
            key.clone_into(&mut self.key);
        }
    }

    /// The units of the fullest window.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// Whose it was, and when it ended.
    #[must_use]
    pub fn whose(&self) -> Option<(&str, u64)> {
        (self.units > 0).then_some((self.key.as_str(), self.ended_at_us))
    }

    /// Admissions not watched because memory for them had run out; the figure is then a lower one.
    #[must_use]
    pub const fn overlooked(&self) -> u64 {
        self.overlooked
    }

    fn forget_all(&mut self, at_us: u64) {
        let window_us = self.window_us;
        self.recent.retain(|_, recent| {
            recent.forget(at_us, window_us);
            !recent.admitted.is_empty()
        });
        self.pairs = self.recent.values().map(|recent| recent.admitted.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_unit_admitted_exactly_one_window_ago_has_left() {
        let mut worst = Worst::new(1_000);
        [0, 500, 1_000, 1_499].into_iter().for_each(|at| worst.record("a", at, 1));
        assert_eq!((worst.units(), worst.whose()), (3, Some(("a", 1_499))));
    }

    #[test]
    fn memory_is_bounded_and_what_was_overlooked_is_told() {
        let mut worst = Worst::with_memory_for(1_000, 2);
        ["a", "b", "c"].into_iter().for_each(|key| worst.record(key, 0, 1));
        assert_eq!((worst.pairs, worst.overlooked()), (2, 1));
        worst.record("c", 1_000, 1);
        assert_eq!((worst.pairs, worst.overlooked()), (1, 1));
    }

    proptest! {
        #[test]
        fn equals_the_naive_maximum(mut times in prop::collection::vec((0..3_000_u64, 0..3_u64), 0..60)) {
            times.sort_unstable();
            let mut worst = Worst::new(1_000);
            times.iter().for_each(|(at, units)| worst.record("a", *at, *units));
            let within = |end: u64| {
                times.iter().filter(|(at, _)| *at <= end && at + 1_000 > end).map(|(_, units)| units).sum::<u64>()
            };
            let naive = times.iter().map(|(at, _)| within(*at)).max().unwrap_or(0);
            prop_assert_eq!(worst.units(), naive);
        }
    }
}
