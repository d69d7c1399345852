//! The keys refused most, in bounded memory: the Space-Saving summary of Metwally, Agrawal and El
//! Abbadi ("Efficient computation of frequent and top-k elements in data streams", 2005).
//!
//! If all counters are in use, a new name takes over the counter of the least-counted name, with
//! its count, because the new name may have been counted before. So a count is never too low, and
//! it is too high by at most the count it took over, which is never more than the average over all
//! counters.

use std::collections::{BTreeSet, HashMap};

use super::fingerprint::Fingerprint;
use super::name::shortened;

/// Counts by name, for as many names at a time as there are counters.
///
/// With n counters every name counted more often than one time in n is among them.
#[derive(Clone, Debug)]
pub struct Most {
    most_names: usize,
    counters: Vec<Counter>,
    indices: HashMap<Fingerprint, u32>,
    /// Counts and the indices of their counters, the least first.
    by_count: BTreeSet<(u64, u32)>,
    replaced: bool,
}

#[derive(Clone, Debug)]
struct Counter {
    key: Fingerprint,
    name: String,
    count: u64,
    taken_over: u64,
}

/// How many times a name was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    /// The name; the first 120 characters of a longer one.
    pub name: &'a str,
    /// The least number of times it was counted.
    pub at_least: u64,
    /// The largest number of times; equal to the least if the count is exact.
    pub at_most: u64,
}

impl Most {
    /// At most `most_names` counters, of about 200 bytes each, at most about 700 for long names.
    /// Without counters nothing is counted.
    pub(super) fn new(most_names: u32) -> Self {
        Self {
            most_names: most_names as usize,
            counters: Vec::new(),
            indices: HashMap::new(),
            by_count: BTreeSet::new(),
            replaced: false,
        }
    }

    /// Counts one for a name; `name` is called only if it gets a counter.
    pub(super) fn add(&mut self, key: Fingerprint, name: impl FnOnce() -> String) {
        if let Some(&index) = self.indices.get(&key) {
            self.count(index);
        } else if self.counters.len() < self.most_names {
            let index = self.counters.len() as u32;
            self.counters.push(Counter { key, name: shortened(name()), count: 1, taken_over: 0 });
            self.indices.insert(key, index);
            self.by_count.insert((1, index));
        } else if let Some(&(_, index)) = self.by_count.first() {
            self.replace(index, key, shortened(name()));
            self.count(index);
        }
    }

    /// How many names were counted; `None` if there were more than there are counters.
    #[must_use]
    pub fn names(&self) -> Option<usize> {
        (!self.replaced).then_some(self.counters.len())
    }

    /// How many names are counted at a time.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.most_names
    }

    /// The `n` names known to be counted most, the largest count first, equal ones by name.
    #[must_use]
    pub fn top(&self, n: usize) -> Vec<Counted<'_>> {
        let mut all: Vec<_> = self.counters.iter().map(Counter::counted).collect();
        let order = |c: &Counted<'_>| (u64::MAX - c.at_least, u64::MAX - c.at_most);
        all.sort_unstable_by(|a, b| order(a).cmp(&order(b)).then(a.name.cmp(b.name)));
        all.truncate(n);
        all
    }

    fn count(&mut self, index: u32) {
        if let Some(counter) = self.counters.get_mut(index as usize) {
            self.by_count.remove(&(counter.count, index));
            counter.count += 1;
            self.by_count.insert((counter.count, index));
        }
    }

    fn replace(&mut self, index: u32, key: Fingerprint, name: String) {
        if let Some(counter) = self.counters.get_mut(index as usize) {
            self.indices.remove(&counter.key);
            self.indices.insert(key, index);
            *counter = Counter { key, name, taken_over: counter.count, ..*counter };
            self.replaced = true;
        }
    }
}

impl Counter {
    fn counted(&self) -> Counted<'_> {
        let at_least = self.count - self.taken_over;
        Counted { name: &self.name, at_least, at_most: self.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn every_frequent_name_is_there_and_every_count_is_between_its_bounds(
            numbers in prop::collection::vec((0_u32..40, 0_u32..40), 0..600),
            most_names in 1_u32..50,
        ) {
            let mut most = Most::new(most_names);
            let mut exact: HashMap<String, u64> = HashMap::new();
            // The lesser of two random numbers is skewed: low numbers are frequent.
            for name in numbers.iter().map(|(a, b)| a.min(b).to_string()) {
                add(&mut most, &name);
                *exact.entry(name).or_default() += 1;
            }
            let total: u64 = exact.values().sum();
            let found: HashMap<&str, Counted<'_>> =
                most.top(usize::MAX).into_iter().map(|counted| (counted.name, counted)).collect();
            prop_assert!(found.len() <= most_names as usize);
            for (name, count) in &exact {
                match found.get(name.as_str()) {
                    Some(c) => {
                        prop_assert!(c.at_least <= *count && *count <= c.at_most);
                        prop_assert!(c.at_most - c.at_least <= total / u64::from(most_names));
                    }
                    None => prop_assert!(*count <= total / u64::from(most_names)),
                }
            }
            prop_assert_eq!(found.values().map(|c| c.at_most).sum::<u64>(), total);
            let names = (exact.len() <= most_names as usize).then_some(exact.len());
            prop_assert_eq!(most.names(), names);
        }
    }
}
