//! The most frequent keys of a stream in bounded memory: the Space-Saving summary of Metwally, Agrawal and El Abbadi
//! ("Efficient computation of frequent and top-k elements in data streams", 2005).
//!
//! A key without a counter takes over the smallest counter with its count, because the key may have been counted
//! before. So a count is never too low, and too high by at most the count that was taken over. A label and its memory
//! are taken over too, so nothing is allocated once all counters are in use and their labels have grown.

use std::collections::HashMap;
use std::hash::Hash;

/// Counts by key. With n counters, every key in more than 1/n of the calls has a counter.
#[derive(Clone, Debug)]
pub struct SpaceSaving<K, L> {
    capacity: usize,
    /// The counters from `order.len()` on are kept for the memory of their labels.
    counters: Vec<Counter<K, L>>,
    /// The counters in use as a heap by count, the smallest first.
    order: Vec<usize>,
    of_key: HashMap<K, usize>,
}

/// The count of a key.
#[derive(Clone, Debug)]
pub struct Counter<K, L> {
    /// The key that is counted.
    pub key: K,
    /// The text that was written for the key.
    pub label: L,
    /// The number of times that the key came, or more.
    pub count: u64,
    /// Too much by at most this.
    pub error: u64,
    /// Its place in the heap.
    place: usize,
}

impl<K: Copy + Eq + Hash, L: Default> SpaceSaving<K, L> {
    /// Returns a summary of at most `capacity` counters; without counters nothing is counted.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, counters: Vec::new(), order: Vec::new(), of_key: HashMap::new() }
    }

    /// Counts a key once; `write` makes the label of another key its own.
    pub fn add(&mut self, key: K, write: impl FnOnce(&mut L)) {
        if let Some(&index) = self.of_key.get(&key) {
            self.increment(index);
        } else if self.order.len() < self.capacity {
            let index = self.order.len();
            // After `clear` there are counters out of use, whose labels have their memory.
            if index == self.counters.len() {
                let label = L::default();
                self.counters.push(Counter { key, label, count: 0, error: 0, place: index });
            }
            self.order.push(index);
            if let Some(counter) = self.counters.get_mut(index) {
                counter.key = key;
                counter.count = 1;
                counter.error = 0;
                counter.place = index;
                write(&mut counter.label);
            }
            self.of_key.insert(key, index);
            // A new counter is at the end of the heap, and its count of 1 may belong further up.
            self.rise(index);
        } else if let Some(&index) = self.order.first() {
            self.take_over(index, key, write);
        }
    }

    fn take_over(&mut self, index: usize, key: K, write: impl FnOnce(&mut L)) {
        if let Some(counter) = self.counters.get_mut(index) {
            self.of_key.remove(&counter.key);
            self.of_key.insert(key, index);
            counter.key = key;
            // Before this time is counted: every earlier count may be of other keys.
            counter.error = counter.count;
            write(&mut counter.label);
            self.increment(index);
        }
    }

    /// Returns how many keys are counted at a time.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets all counts, and keeps the memory.
    pub fn clear(&mut self) {
        self.order.clear();
        self.of_key.clear();
    }

    /// Returns all counters in use.
    pub fn counters(&self) -> impl Iterator<Item = &Counter<K, L>> {
        self.order.iter().filter_map(|&index| self.counters.get(index))
    }

    /// Returns the counter of a key.
    #[must_use]
    pub fn get(&self, key: K) -> Option<&Counter<K, L>> {
        self.counters.get(*self.of_key.get(&key)?)
    }

    /// Returns the largest number of times that a key without a counter can have come. The capacity is above 0.
    #[must_use]
    pub fn least(&self) -> u64 {
        // While counters are free, a key without a counter has never come.
        let is_full = self.order.len() == self.capacity;
        self.order.first().filter(|_| is_full).map_or(0, |&index| self.count(index))
    }

    fn count(&self, index: usize) -> u64 {
        self.counters.get(index).map_or(u64::MAX, |counter| counter.count)
    }

    fn increment(&mut self, index: usize) {
        if let Some(counter) = self.counters.get_mut(index) {
            counter.count += 1;
            let place = counter.place;
            // The smallest count is at the top, so a count that grows can only sink.
            self.sink(place);
        }
    }

    /// The count at a place of the heap; the largest number where the heap has none.
    fn at(&self, place: usize) -> u64 {
        self.order.get(place).map_or(u64::MAX, |&index| self.count(index))
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let above = (place - 1) / 2;
            if self.at(above) <= self.at(place) {
                break;
            }
            self.swap(above, place);
            place = above;
        }
    }

    fn sink(&mut self, mut place: usize) {
        // A place beyond the heap counts as the largest, so the loop ends at a leaf.
        loop {
            let left = 2 * place + 1;
            let right = left + 1;
            let below = if self.at(right) < self.at(left) { right } else { left };
            if self.at(place) <= self.at(below) {
                break;
            }
            self.swap(place, below);
            place = below;
        }
    }

    fn swap(&mut self, above: usize, below: usize) {
        self.order.swap(above, below);
        for place in [above, below] {
            let counter = self.order.get(place).and_then(|&index| self.counters.get_mut(index));
            if let Some(counter) = counter {
                counter.place = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn add(summary: &mut SpaceSaving<u64, u64>, key: u64) {
        summary.add(key, |label| *label = key);
    }

    proptest! {
        #[test]
        fn every_frequent_key_is_there_and_no_count_is_too_low_or_too_high_by_more_than_its_error(
            pairs in prop::collection::vec((0_u64..40, 0_u64..40), 0..600),
            before in prop::collection::vec(0_u64..80, 0..80),
            capacity in 1_usize..50,
        ) {
            let mut summary = SpaceSaving::new(capacity);
            before.into_iter().for_each(|key| add(&mut summary, key));
            summary.clear();
            let mut exact: HashMap<u64, u64> = HashMap::new();
            // The lesser of two random numbers is skewed: low numbers are frequent.
            for key in pairs.iter().map(|(a, b)| *a.min(b)) {
                add(&mut summary, key);
                *exact.entry(key).or_default() += 1;
            }
            let total: u64 = exact.values().sum();
            prop_assert_eq!(summary.counters().map(|counter| counter.count).sum::<u64>(), total);
            prop_assert!(summary.counters().count() <= capacity);
            for (key, count) in exact {
                match summary.get(key) {
                    Some(counter) => {
                        prop_assert_eq!(counter.label, key);
                        prop_assert!(counter.count >= count && counter.count - counter.error <= count);
                        prop_assert!(counter.error <= total / capacity as u64);
                    }
                    None => prop_assert!(count <= summary.least() && count <= total / capacity as u64),
                }
            }
        }
    }

    #[test]
    fn without_counters_nothing_is_counted() {
        let mut summary = SpaceSaving::<u64, u64>::new(0);
        add(&mut summary, 1);
        assert_eq!((summary.counters().count(), summary.least()), (0, 0));
    }
}
