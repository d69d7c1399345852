//! The ring of half seconds: the totals when each began, the current half second, and the start of the next.
//!
//! One word holds the number of the current half second, and whether others are just beginning:
//!
//! - A thread that counts at a time in the current half second or before it only adds to the
//!   totals.
//! - The first thread at a later time makes the half seconds up to it begin, under a lock that is
//!   taken once for each, and for borrowing. Other threads at a later time wait for that; no one
//!   else does.
//! - A reader reads the word before and after, and repeats if it changed, so no thread waits.

use std::fmt;
use std::sync::PoisonError;

use tidegate_core::Timestamp;

use super::borrowed::{Borrowed, MOST_AHEAD};
use super::half_seconds::{SLOTS, number_of, oldest_kept};
use super::least::{LONGEST_US, Least};
use super::totals::{COUNTS, Count, Counts, Totals};
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

/// One half second: the totals as it began, and the shortest response time since.
#[derive(Debug, Default)]
struct RingSlot {
    began_with: [AtomicU64; COUNTS],
    least: Least,
}

impl RingSlot {
    fn begin(&self, number: u64, totals: &Counts) {
        // Released: a reader that sees such a total also sees the word that was stored before it, and repeats.
        for (began, total) in self.began_with.iter().zip(totals.0) {
            began.store(total, Release);
        }
        self.least.begin(number);
    }
}

/// The word, on a cache line of its own: it changes twice a second, the totals all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
struct RingWord(AtomicU64);

/// The totals of one resource, and the ring of their past.
#[derive(Default)]
pub(super) struct Ring {
    word: RingWord,
    pub(super) totals: Totals,
    slots: RingSlots,
    /// Locked while half seconds begin, and to borrow from those that have not begun.
    borrowed: Mutex<Borrowed>,
}

struct RingSlots(Box<[RingSlot; SLOTS]>);

impl Default for RingSlots {
    fn default() -> Self {
        Self(Box::new(std::array::from_fn(|_| RingSlot::default())))
    }
}

impl Ring {
    /// Makes the half second of `now` begin, if it has not. A time before the current one counts as
    /// the current one.
    #[inline]
    pub(super) fn reach(&self, now: Timestamp) {
        let number = number_of(now);
        // Pairs with the release of the word in `begin`: the slot of the current half second is written.
        if self.word.0.load(Acquire) >> 1 < number {
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
        if let Some(number) = self.half_of_success(before) {
            self.slot(number).least.lower(number, took_us);
        }
    }

    /// The half second of a success, by the total before it: usually the current one, or an earlier
    /// one if others have begun since; `None` if that has left the ring.
    fn half_of_success(&self, before: u64) -> Option<u64> {
        loop {
            let word = self.settled();
            let newest = word >> 1;
            let found = (oldest_kept(newest)..=newest).rev().find(|number| {
                let began_with =
                    self.slot(*number).began_with[Count::Success as usize].load(Acquire);
                // Totals wrap, so only their difference says which is earlier.
                before.wrapping_sub(began_with).cast_signed() >= 0
            });
            // If others began during the search, a slot may already belong to a newer half second.
            if self.is_at(word) {
                return found;
            }
        }
    }

    /// Waits until no half second is beginning; returns the word.
    #[inline]
    pub(super) fn settled(&self) -> u64 {
        loop {
            let word = self.word.0.load(Acquire);
            if word & BEGINNING == 0 {
                return word;
            }
            // The thread that makes them begin holds the lock until they have.
            drop(self.lock());
        }
    }

    /// The totals as half second `number`, which is in the ring, began.
    pub(super) fn began_with(&self, number: u64) -> Counts {
        let began_with = &self.slot(number).began_with;
        Counts(std::array::from_fn(|at| began_with[at].load(Acquire)))
    }

    /// The shortest response time in half second `number`, which is in the ring.
    pub(super) fn least_us(&self, number: u64) -> Option<u64> {
        self.slot(number).least.us()
    }

    #[inline]
    fn slot(&self, number: u64) -> &RingSlot {
        &self.slots.0[number as usize % SLOTS]
    }

    /// Returns whether the word is unchanged.
    pub(super) fn is_at(&self, word: u64) -> bool {
        self.word.0.load(Acquire) == word
    }

    fn lock(&self) -> MutexGuard<'_, Borrowed> {
        self.borrowed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the ring: no half second begins until the guard is dropped, and `number` has begun.
    #[cold]
    pub(super) fn hold(&self, number: u64) -> Still<'_> {
        let mut borrowed = self.lock();
        // Read again under the lock: another thread may have been first.
        let current = self.word.0.load(Acquire) >> 1;
        if current < number {
            self.begin(&mut borrowed, current, number);
        }
        Still { ring: self, borrowed, current: current.max(number) }
    }

    /// Makes the half seconds after `current` begin, up to `number`. Counts made during the call belong
    /// to the last of them.
    fn begin(&self, borrowed: &mut Borrowed, current: u64, number: u64) {
        // From here on a reader finds the word changed and repeats, so that it uses no slot half written.
        self.word.0.store(current << 1 | BEGINNING, Release);
        let before = self.totals.mark();
        // After a long pause most half seconds in between have left the ring already: they get no slot, but units that
        // were borrowed from them have passed all the same.
        let first_kept = oldest_kept(number).max(current + 1);
        let mut totals = before;
        // Units are borrowed no further ahead, so no later half second has any.
        for passed_over in (current + 1..first_kept).take(MOST_AHEAD as usize) {
            totals.add(Count::Pass, borrowed.take(passed_over));
        }
        for begun in first_kept..=number {
            self.slot(begun).begin(begun, &totals);
            totals.add(Count::Pass, borrowed.take(begun));
        }
        // Before the word: a reader of the new half second finds the borrowed units among those that passed.
        self.totals.add_in_order(Count::Pass, totals.since(&before).of(Count::Pass));
        self.word.0.store(number << 1, Release);
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("totals", &self.totals.read()).finish_non_exhaustive()
    }
}

/// The ring while no half second can begin.
pub(super) struct Still<'a> {
    pub(super) ring: &'a Ring,
    pub(super) borrowed: MutexGuard<'a, Borrowed>,
    /// The number of the current half second.
    pub(super) current: u64,
}

impl Still<'_> {
    fn add_large(&self, what: Count, amount: u64) {
        let Self { ring, current, .. } = self;
        // No half second begins while the lock is held, so the oldest that counts stays the oldest.
        let kept = ring.totals.read().since(&ring.began_with(oldest_kept(*current)));
        let space = MOST_OF_LARGE.saturating_sub(kept.of(what));
        ring.totals.add(what, amount.min(space));
    }
}
