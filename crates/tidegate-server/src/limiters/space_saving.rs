//! The most frequent keys of a stream in bounded memory: the Space-Saving summary of Metwally, Agrawal and El Abbadi
//! ("Efficient computation of frequent and top-k elements in data streams", 2005).
//!
//! A key without a counter takes over the least one with its count, because it may have been counted before. So a
//! count is never too low, and too high by at most what was taken over. A label and its memory are taken over too, so
//! nothing is allocated once all counters are in use and their labels have grown.

use std::collections::HashMap;

/// Counts by fingerprint; every key above `total / capacity` is among them.
#[derive(Debug)]
pub(super) struct SpaceSaving<L> {
    capacity: usize,
    total: u64,
    /// Those from `order.len()` on are kept for the memory of their labels.
    counters: Vec<Counter<L>>,
    /// The counters in use as a heap by count, the least first.
    order: Vec<usize>,
    of_key: HashMap<u64, usize>,
}

/// One key's count.
#[derive(Debug)]
pub(super) struct Counter<L> {
    pub(super) key: u64,
    pub(super) label: L,
    /// At least as often as the key came.
    pub(super) count: u64,
    /// Too much by at most this.
    pub(super) error: u64,
    /// Its place in the heap.
    place: usize,
}

impl<L: Default> SpaceSaving<L> {
    pub(super) fn new(capacity: usize) -> Self {
        let (counters, order, of_key) = (Vec::new(), Vec::new(), HashMap::new());
        Self { capacity, total: 0, counters, order, of_key }
    }

    /// Counts a key once; `write` makes the label of another key its own.
    pub(super) fn add(&mut self, key: u64, write: impl FnOnce(&mut L)) {
        self.total += 1;
        if let Some(&index) = self.of_key.get(&key) {
            self.increment(index);
        } else if self.order.len() < self.capacity {
            let (index, place) = (self.order.len(), self.order.len());
            if index == self.counters.len() {
                let label = L::default();
                self.counters.push(Counter { key, label, count: 0, error: 0, place });
            }
            self.order.push(index);
            if let Some(counter) = self.counters.get_mut(index) {
                (counter.key, counter.count, counter.error, counter.place) = (key, 1, 0, place);
                write(&mut counter.label);
            }
            self.of_key.insert(key, index);
            self.rise(place);
        } else if let Some(&index) = self.order.first() {
            self.take_over(index, key, write);
        }
    }

    fn take_over(&mut self, index: usize, key: u64, write: impl FnOnce(&mut L)) {
        if let Some(counter) = self.counters.get_mut(index) {
            self.of_key.remove(&counter.key);
            self.of_key.insert(key, index);
            (counter.key, counter.error) = (key, counter.count);
            write(&mut counter.label);
            self.increment(index);
        }
    }

    /// Forgets all counts, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.total = 0;
        self.order.clear();
        self.of_key.clear();
    }

    /// How often all keys together came.
    #[cfg(test)]
    const fn total(&self) -> u64 {
        self.total
    }

    /// All counters in use.
    pub(super) fn counters(&self) -> impl Iterator<Item = &Counter<L>> {
        self.order.iter().filter_map(|&index| self.counters.get(index))
    }

    /// The counter of a key.
    pub(super) fn get(&self, key: u64) -> Option<&Counter<L>> {
        self.counters.get(*self.of_key.get(&key)?)
    }

    /// The most that a key without a counter can have come.
    pub(super) fn least(&self) -> u64 {
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
            self.sink(place);
        }
    }

    /// The count at a place of the heap; the largest where there is none.
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
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let below = if self.at(right) < self.at(left) { right } else { left };
            if self.at(place) <= self.at(below) {
                break;
            }
            self.swap(place, below);
            place = below;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.order.swap(one, other);
        for place in [one, other] {
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

    fn add(summary: &mut SpaceSaving<u64>, key: u64) {
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
            prop_assert_eq!(summary.total(), total);
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
        let mut summary = SpaceSaving::new(0);
        add(&mut summary, 1);
        assert_eq!((summary.counters().count(), summary.least()), (0, 0));
    }
}
