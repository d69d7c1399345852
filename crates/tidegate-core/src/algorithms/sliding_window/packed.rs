//! Packed states of a sliding window, and decisions on them as they are.
//!
//! Most decisions fall into the newest bucket: they read and change the total and one counter, in the first word and in
//! the last. Only when a bucket has passed are all words moved up by one counter.

use super::bits::{number, put, raised};
use super::{FEW, SlidingWindow, State};
use crate::algorithm::{Decide, HORIZON, Pack, Packing, WORD_BITS};
use crate::decision::Verdict;
use crate::time::Timestamp;

/// The layout of the words. From the second-highest bit of the first word down: the number of buckets from the base to
/// the newest, and the total if there is place for it. From the lowest bit of the last word up: the counters, the
/// newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedLayout {
    packing: Packing,
    /// Bits of a counter and of the total: the bits of the limit, and one for a debt.
    count_bits: u32,
    /// The largest number of these bits.
    largest_count: u64,
    /// Bits of all counters.
    counters_bits: u32,
    /// The largest number of a bucket that can be packed.
    last_bucket: u64,
    /// The bits below the number of the newest bucket.
    newest_shift: u32,
    /// The bits below the total, or below the newest bucket if there is no place for the total.
    total_shift: u32,
    /// The largest total that can be packed; zero if there is no place for it.
    largest_total: u64,
}

impl PackedLayout {
    pub(super) fn new(limit: u64, width_us: u64, span: u64) -> Self {
        // At a limit of 0 the used units were taken under another limit, so their number has no bound.
        let count_bits = if limit == 0 { u32::BITS } else { u64::BITS - limit.leading_zeros() + 1 };
        let last_bucket = HORIZON.as_micros() / width_us + 1;
        let newest_bits = u64::BITS - last_bucket.leading_zeros();
        let counters_bits = span.min(FEW as u64) as u32 * count_bits;
        // The first word has 63 bits for them: a cell of one, two or six words has 63, 127 or 383.
        let (packing, free) = match counters_bits + newest_bits {
            _ if span > FEW as u64 => (Packing::Unpacked, 0),
            used @ ..64 => (Packing::One, 63 - used),
            used @ 64..128 => (Packing::Two, 127 - used),
            used @ 128..384 => (Packing::Six, 383 - used),
            _ => (Packing::Unpacked, 0),
        };
        let newest_shift = WORD_BITS - newest_bits;
        let largest_count = (1 << count_bits) - 1;
        let (total_shift, largest_total) = match newest_shift.checked_sub(count_bits) {
            Some(shift) if count_bits <= free => (shift, largest_count),
            _ => (newest_shift, 0),
        };
        Self {
            packing,
            count_bits,
            largest_count,
            counters_bits,
            last_bucket,
            newest_shift,
            total_shift,
            largest_total,
        }
    }

    fn count<const WORDS: usize>(&self, words: &[u64; WORDS], age: u32) -> u64 {
        number(words, age * self.count_bits, self.count_bits)
    }

    /// The sum of the counters from this age up.
    fn sum<const WORDS: usize>(&self, words: &[u64; WORDS], from: u32) -> u64 {
        let ages = from..self.counters_bits / self.count_bits;
        ages.map(|age| self.count(words, age)).sum()
    }

    #[inline]
    fn newest<const WORDS: usize>(&self, words: &[u64; WORDS]) -> u64 {
        words.first().map_or(0, |first| first >> self.newest_shift)
    }

    #[inline]
    fn total<const WORDS: usize>(&self, words: &[u64; WORDS]) -> u64 {
        match words.first() {
            Some(first) if self.largest_total > 0 => {
                (first >> self.total_shift) & self.largest_total
            }
            _ => self.sum(words, 0),
        }
    }

    /// Replaces the newest bucket and the total.
    #[inline]
    fn set_head<const WORDS: usize>(&self, words: &mut [u64; WORDS], newest: u64, total: u64) {
        // A larger number would reach into the bit of the store.
        let newest = newest.min(self.last_bucket) << self.newest_shift;
        let total = (total & self.largest_total) << self.total_shift;
        if let Some(first) = words.first_mut() {
            *first = newest | total | (*first & ((1 << self.total_shift) - 1));
        }
    }

    /// Makes every counter as many buckets older as have `passed`; returns the sum of those that have left. The newest
    /// bucket and the total are to be set after it.
    #[cold]
    fn age<const WORDS: usize>(&self, words: &mut [u64; WORDS], passed: u64) -> u64 {
        let span = self.counters_bits / self.count_bits;
        let passed = u32::try_from(passed).unwrap_or(span).min(span);
        let left = self.sum(words, span - passed);
        *words = raised(words, passed * self.count_bits, self.counters_bits);
        left
    }
}

impl SlidingWindow {
    /// The slots of the buckets from the newest back.
    fn by_age(&self, newest: u64) -> impl Iterator<Item = usize> {
        let first = self.slot(newest, 0);
        let span = self.span as usize;
        // Down from the slot of the newest bucket, and then down from the last slot.
        (0..=first).rev().chain((first + 1..span).rev())
    }
}

impl Pack for SlidingWindow {
    fn packing(&self) -> Packing {
        self.layout.packing
    }

    /// The total stops at the largest count, and so the oldest units of a larger debt are cut off.
    #[inline]
    fn pack<const WORDS: usize>(&self, base: Timestamp, state: &State) -> [u64; WORDS] {
        let layout = &self.layout;
        let mut words = [0; WORDS];
        if state.total == 0 {
            return words;
        }
        let mut from = 0;
        let mut total = 0;
        for slot in self.by_age(state.newest) {
            let units = state.slots.get(slot).copied().map_or(0, u64::from);
            let units = units.min(layout.largest_count - total);
            put(&mut words, from, units);
            from += layout.count_bits;
            total += units;
        }
        layout.set_head(&mut words, state.newest.saturating_sub(self.bucket(base)), total);
        words
    }

    #[inline]
    fn unpack<const WORDS: usize>(&self, base: Timestamp, words: [u64; WORDS]) -> State {
        let mut state = self.fresh(base);
        if words == [0; WORDS] {
            return state;
        }
        state.newest += self.layout.newest(&words);
        for (age, slot) in (0..).zip(self.by_age(state.newest)) {
            let units = self.layout.count(&words, age);
            state.slots[slot] = u32::try_from(units).unwrap_or(u32::MAX);
            state.total += units;
        }
        state
    }

    #[inline]
    fn ask_packed<const WORDS: usize>(
        &self,
        base: Timestamp,
        words: &mut [u64; WORDS],
        now: Timestamp,
        cost: u64,
    ) -> Verdict {
        if cost == 0 {
            return Verdict::Allow;
        }
        let Some(most) = self.limit.checked_sub(cost) else { return Verdict::Never };
        let newest = self.layout.newest(words);
        let bucket = self.bucket(now).saturating_sub(self.bucket(base));
        let mut total = self.layout.total(words);
        // A denial after this leaves words without a meaning, which the caller drops.
        if bucket > newest {
            total -= self.layout.age(words, bucket - newest);
        }
        if total > most {
            return Verdict::Deny;
        }
        self.layout.set_head(words, newest.max(bucket), total + cost);
        // Below the largest count, because the total is not above the limit.
        words.last_mut().into_iter().for_each(|last| *last += cost);
        Verdict::Allow
    }
}
