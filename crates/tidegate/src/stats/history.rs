//! The past of a resource: the totals with which each half second began, and the start of the next.
//!
//! One word holds the number of the current half second, and whether others are just beginning:
//!
//! - A thread that counts at a time in the current half second or before it only adds to the
//!   totals.
//! - The first thread at a later time makes the half seconds up to it begin, under a lock that is
//!   taken once for each, for borrowing, and for reading. Other threads at a later time wait for that.
//!
//! Only half seconds in which something was counted are kept, so a resource that is seldom used takes little memory.

use std::collections::VecDeque;
use std::fmt;
use std::sync::PoisonError;

use tidegate_core::Timestamp;

use super::half_seconds::{Borrowed, MOST_AHEAD, number_of, oldest_kept};
use super::least::{LONGEST_US, Least};
use super::totals::{Count, Counts, Totals};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::sync::{Mutex, MutexGuard};

/// Set in the word while half seconds begin; the number of the current one is in the bits above it.
const BEGINNING: u64 = 1;

/// The amounts from which the sum of a window could wrap. The sum of smaller amounts, even of a billion in a minute,
/// stays below 2^62.
const LARGE: u64 = 1 << 32;
/// The maximum that large amounts contribute to a sum.
const MOST_OF_LARGE: u64 = 1 << 63;

/// The totals of one resource, and their past.
#[derive(Default)]
pub(super) struct History {
    current: Current,
    pub(super) totals: Totals,
    /// Locked while half seconds begin, to read the past, and to borrow from half seconds that have not begun.
    half_seconds: Mutex<HalfSeconds>,
}

/// The current half second, on a cache line of its own: it changes twice a second, the totals all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Current {
    word: AtomicU64,
    /// The total of successes as it began.
    began_with: AtomicU64,
    /// The shortest response time since it began.
    least: Least,
}

/// The half seconds that began, and units borrowed from the next.
#[derive(Debug, Default)]
pub(super) struct HalfSeconds {
    /// In their order. A half second is left out if nothing was counted between its begin and the begin of the next.
    begun: VecDeque<Half>,
    pub(super) borrowed: Borrowed,
}

/// A half second that began.
#[derive(Debug)]
struct Half {
    number: u64,
    began_with: Counts,
    /// The shortest response time; [`Current`] has it while this is the current half second.
    least_us: Option<u64>,
}

impl History {
    /// Makes the half second of `now` begin, if it has not. A time before the current one counts as
    /// the current one.
    #[inline]
    pub(super) fn reach(&self, now: Timestamp) {
        let number = number_of(now);
        if self.current.word.load(Acquire) >> 1 < number {
            drop(self.hold(number));
        }
    }

    /// Adds to one count. A large amount is added as far as the sum of all half seconds that are kept stays within
    /// [`MOST_OF_LARGE`].
    #[inline]
    pub(super) fn add(&self, what: Count, amount: u64, now: Timestamp) {
        self.reach(now);
        if amount >= LARGE {
            return self.add_large(what, amount, now);
        }
        self.totals.add(what, amount);
    }

    #[cold]
    fn add_large(&self, what: Count, amount: u64, now: Timestamp) {
        // Under the lock, so that two large amounts do not find the same space.
        self.hold(number_of(now)).add_large(what, amount);
    }

    /// Counts a request that succeeded, with its response time.
    pub(super) fn complete(&self, now: Timestamp, took_us: u64) {
        let took_us = took_us.min(LONGEST_US);
        self.add(Count::RtSumUs, took_us, now);
        // The sum comes first: a reader that sees the success also sees its time.
        let before = self.totals.add_in_order(Count::Success, 1);
        let word = self.settled();
        let Current { began_with, least, .. } = &self.current;
        // The time belongs to the half second of the success. If others began since, the current one is no longer it, or
        // its least time can no longer be lowered here.
        let is_current = is_since(before, began_with.load(Acquire)) && self.is_at(word);
        if !is_current || !least.lower(word >> 1, took_us) {
            self.lower_past(before, took_us);
        }
    }

    /// Lowers the shortest time of the half second of a success, by the total before it. Nothing is lowered if the half
    /// second is kept no more.
    #[cold]
    fn lower_past(&self, before: u64, took_us: u64) {
        let mut half_seconds = self.lock();
        let current = self.current.word.load(Acquire) >> 1;
        match half_seconds.begun.iter_mut().rev().find(|half| half.has_success(before)) {
            Some(half) if half.number != current => {
                half.least_us = Some(half.least_us.map_or(took_us, |least| least.min(took_us)));
            }
            Some(_) => _ = self.current.least.lower(current, took_us),
            // The half second 0 is not among the halves.
            None if current == 0 => _ = self.current.least.lower(0, took_us),
            None => {}
        }
    }

    /// Waits until no half second is beginning; returns the word.
    #[inline]
    fn settled(&self) -> u64 {
        loop {
            let word = self.current.word.load(Acquire);
            if word & BEGINNING == 0 {
                return word;
            }
            // The thread that makes them begin holds the lock until they have.
            drop(self.lock());
        }
    }

    /// Returns whether the word is unchanged.
    fn is_at(&self, word: u64) -> bool {
        self.current.word.load(Acquire) == word
    }

    fn lock(&self) -> MutexGuard<'_, HalfSeconds> {
        self.half_seconds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the history: no half second begins until the guard is dropped, and `number` has begun.
    #[cold]
    pub(super) fn hold(&self, number: u64) -> Still<'_> {
        let mut half_seconds = self.lock();
        // Read again under the lock: another thread may have been first.
        let current = self.current.word.load(Acquire) >> 1;
        if current < number {
            self.begin(&mut half_seconds, current, number);
        }
        Still { history: self, half_seconds, current: current.max(number) }
    }

    /// Makes the half seconds after `current` begin, up to `number`. Counts made during the call belong
    /// to the last of them.
    fn begin(&self, half_seconds: &mut HalfSeconds, current: u64, number: u64) {
        // From here on a thread with a success waits until it is known to which half second it belongs.
        self.current.word.store(current << 1 | BEGINNING, Release);
        let before = self.totals.mark();
        let mut totals = before;
        half_seconds.end(current, &before, self.current.least.begin(number));
        half_seconds.forget_before(oldest_kept(number));
        // Units are borrowed no further ahead, so nothing was counted in later half seconds that passed.
        for passed in (current + 1..number).take(MOST_AHEAD as usize) {
            let borrowed = half_seconds.borrowed.take(passed);
            if borrowed > 0 {
                half_seconds.begin(passed, totals);
                totals.add(Count::Pass, borrowed);
            }
        }
        half_seconds.begin(number, totals);
        totals.add(Count::Pass, half_seconds.borrowed.take(number));
        self.current.began_with.store(before.of(Count::Success), Release);
        // Before the word: a reader of the new half second finds the borrowed units among those that passed.
        self.totals.add_in_order(Count::Pass, totals.since(&before).of(Count::Pass));
        self.current.word.store(number << 1, Release);
    }
}

impl Half {
    /// Returns whether it began at or before the success with this total before it.
    const fn has_success(&self, before: u64) -> bool {
        is_since(before, self.began_with.of(Count::Success))
    }
}

/// Returns whether a total was read when another total was reached. Totals wrap, so only their difference says which is
/// earlier.
const fn is_since(total: u64, other: u64) -> bool {
    total.wrapping_sub(other).cast_signed() >= 0
}

impl HalfSeconds {
    fn begin(&mut self, number: u64, began_with: Counts) {
        if self.begun.len() == self.begun.capacity() {
            // Twice the space, but of the first alone: of many resources most are seldom used.
            self.begun.reserve_exact(self.begun.len().max(1));
        }
        self.begun.push_back(Half { number, began_with, least_us: None });
    }

    /// Notes the shortest response time of the current half second, which ends with these totals; forgets it if nothing
    /// was counted in it.
    fn end(&mut self, current: u64, totals: &Counts, least_us: Option<u64>) {
        if self.begun.is_empty() && current == 0 {
            // The first half second never began.
            self.begin(current, Counts::default());
        }
        if self.begun.pop_back_if(|half| half.began_with == *totals).is_none()
            && let Some(ended) = self.begun.back_mut()
        {
            ended.least_us = least_us;
        }
    }

    fn forget_before(&mut self, oldest: u64) {
        while self.begun.pop_front_if(|half| half.number < oldest).is_some() {}
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("totals", &self.totals.read()).finish_non_exhaustive()
    }
}

/// The history while no half second can begin.
pub(super) struct Still<'a> {
    pub(super) history: &'a History,
    pub(super) half_seconds: MutexGuard<'a, HalfSeconds>,
    /// The number of the current half second.
    pub(super) current: u64,
}

impl Still<'_> {
    /// The totals as half second `number`, which is kept, began; the totals now if it has not begun.
    pub(super) fn began_with(&self, number: u64) -> Counts {
        if number == 0 {
            return Counts::default();
        }
        // In half seconds that are left out nothing was counted, so the next began with the same totals.
        let begun = &self.half_seconds.begun;
        match begun.get(begun.partition_point(|half| half.number < number)) {
            Some(half) => half.began_with,
            None => self.history.totals.read(),
        }
    }

    /// The shortest response time in the half seconds from `first` to `last`.
    pub(super) fn least_us(&self, first: u64, last: u64) -> Option<u64> {
        let is_in = |number: u64| (first..=last).contains(&number);
        let halves = self.half_seconds.begun.iter().filter(|half| is_in(half.number));
        let of_current = is_in(self.current).then(|| self.history.current.least.us());
        halves.filter_map(|half| half.least_us).chain(of_current.flatten()).min()
    }

    fn add_large(&self, what: Count, amount: u64) {
        let Self { history, current, .. } = self;
        // No half second begins while the lock is held, so the oldest that counts stays the oldest.
        let kept = history.totals.read().since(&self.began_with(oldest_kept(*current)));
        let space = MOST_OF_LARGE.saturating_sub(kept.of(what));
        history.totals.add(what, amount.min(space));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::stats::half_seconds::HALF_SECOND_US;

    /// Returns the number of half seconds that are kept after units passed in each of these.
    fn kept_after(numbers: impl Iterator<Item = u64>) -> usize {
        let history = History::default();
        let times = numbers.map(|number| Timestamp::from_micros(number * HALF_SECOND_US));
        times.for_each(|now| history.add(Count::Pass, 1, now));
        history.lock().begun.len()
    }

    #[test]
    fn only_half_seconds_of_the_last_minute_in_which_something_was_counted_are_kept() {
        assert_eq!(kept_after([1_000].into_iter()), 1);
        assert_eq!(kept_after([1_000, 1_050, 1_119].into_iter()), 3);
        assert_eq!(kept_after([1_000, 1_050, 1_120].into_iter()), 2);
        assert_eq!(kept_after([1_000, 1_050, 5_000].into_iter()), 1);
        assert_eq!(kept_after(0..1_000), 120);
    }

    #[test]
    fn half_seconds_that_were_only_read_are_not_kept() {
        let history = History::default();
        let half = |number: u64| Timestamp::from_micros(number * HALF_SECOND_US);
        history.add(Count::Pass, 1, half(1_000));
        for number in 1_001..1_100 {
            assert_eq!(history.read(half(number)).minute().pass, 1);
        }
        assert_eq!(history.lock().begun.len(), 2);
    }
}
