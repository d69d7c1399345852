//! The keys refused most, in bounded memory.
//!
//! A log may have millions of refused keys, so only frequent keys have a counter (`SpaceSaving`).

use super::fingerprint::Fingerprint;
use super::name::shortened;
use crate::space_saving::{Counter, SpaceSaving};

/// Counts by name, for as many names at a time as there are counters.
///
/// With n counters every name that had more than an n-th of all counts is among them.
#[derive(Clone, Debug)]
pub struct Most {
    names: SpaceSaving<Fingerprint, String>,
}

/// The number of times that a name was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    /// The name; the first 120 characters of a longer one.
    pub name: &'a str,
    /// The smallest number of times it was counted.
    pub at_least: u64,
    /// The largest number of times; equal to the smallest if the count is exact.
    pub at_most: u64,
}

impl Most {
    /// At most `most_names` counters, of about 200 bytes each, at most about 700 for long names.
    /// Without counters nothing is counted.
    pub(super) fn new(most_names: u32) -> Self {
        Self { names: SpaceSaving::new(most_names as usize) }
    }

    /// Counts a name once; `name` is called only if it gets a counter.
    pub(super) fn add(&mut self, key: Fingerprint, name: impl FnOnce() -> String) {
        self.names.add(key, |label| *label = shortened(name()));
    }

    /// The number of names that were counted; `None` if there were more than there are counters.
    #[must_use]
    pub fn names(&self) -> Option<usize> {
        let is_exact = self.names.counters().all(|counter| counter.error == 0);
        is_exact.then(|| self.names.counters().count())
    }

    /// The number of names that are counted at a time.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.names.capacity()
    }

    /// The `n` names known to be counted most, the largest count first, equal ones by name.
    #[must_use]
    pub fn top(&self, n: usize) -> Vec<Counted<'_>> {
        let mut all: Vec<_> = self.names.counters().map(counted).collect();
        all.sort_unstable_by(|a, b| {
            let by_count = (b.at_least, b.at_most).cmp(&(a.at_least, a.at_most));
            by_count.then(a.name.cmp(b.name))
        });
        all.truncate(n);
        all
    }
}

fn counted(counter: &Counter<Fingerprint, String>) -> Counted<'_> {
    let at_least = counter.count - counter.error;
    Counted { name: &counter.label, at_least, at_most: counter.count }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(most: &mut Most, name: &str) {
        let word = name.bytes().fold(7_u32, |word, byte| word.wrapping_mul(257) ^ u32::from(byte));
        most.add(Fingerprint::from_words([word, name.len() as u32, 1]), || name.to_owned());
    }

    fn exactly(name: &str, count: u64) -> Counted<'_> {
        Counted { name, at_least: count, at_most: count }
    }

    #[test]
    fn the_largest_come_first_and_ties_by_name() {
        let mut most = Most::new(10);
        "b a c b a".split(' ').for_each(|name| add(&mut most, name));
        assert_eq!(most.top(2), [exactly("a", 2), exactly("b", 2)]);
        assert_eq!(most.names(), Some(3));
    }

    #[test]
    fn a_heavy_name_that_comes_late_is_found() {
        let mut most = Most::new(100);
        (0..5_000).for_each(|n| add(&mut most, &n.to_string()));
        (0..80).for_each(|_| add(&mut most, "late"));
        assert_eq!(most.top(1), [Counted { name: "late", at_least: 80, at_most: 130 }]);
        assert_eq!(most.names(), None);
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let mut most = Most::new(10);
        let names = ["é".repeat(1_000), "é".repeat(1_001), "é".repeat(120)];
        names.iter().for_each(|name| add(&mut most, name));
        let cut = "é".repeat(120) + "…";
        assert_eq!(most.top(9).iter().map(|c| c.name).collect::<Vec<_>>(), [&names[2], &cut, &cut]);
    }

    #[test]
    fn without_places_nothing_is_counted() {
        let mut most = Most::new(0);
        add(&mut most, "a");
        assert_eq!((most.top(5), most.names()), (Vec::new(), Some(0)));
    }
}
