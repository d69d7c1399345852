//! Cache lines of one to three limiters each, with the lock over the chain that starts with a line; and lines by number,
//! in segments that are made when first needed and never moved.
//!
//! `chains` links them; a line never moves, so a reference to it stays good while others are made.

use std::array::from_fn;
use std::sync::OnceLock;

use crate::key::Fingerprint;
use crate::store::memory::locked_words::{LOCKED, Lock};
use crate::store::memory::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
    spin_until,
};

/// The first word of a limiter whose state is spilled: the bit that packed states leave free.
pub(super) const SPILLED: u64 = 1 << 63;

/// Returns whether the state of a limiter with these words is `spilled`.
#[inline]
pub(super) fn is_spilled<const WORDS: usize>(words: [u64; WORDS]) -> bool {
    words.first() == Some(&SPILLED)
}

/// Packed states of so many words with their fingerprints, in so many places, and a header: a lock bit, and the number
/// of the next line of the chain (0 for none).
///
/// The lock of a chain's first line covers the whole chain. Everything but the header is accessed only under that
/// lock, so those accesses need no ordering of their own.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Line<const PLACES: usize, const WORDS: usize> {
    states: [[AtomicU64; WORDS]; PLACES],
    fingerprints: [[AtomicU32; 3]; PLACES],
    header: AtomicU32,
}

impl<const PLACES: usize, const WORDS: usize> Default for Line<PLACES, WORDS> {
    fn default() -> Self {
        Self {
            states: from_fn(|_| from_fn(|_| AtomicU64::default())),
            fingerprints: from_fn(|_| Default::default()),
            header: AtomicU32::default(),
        }
    }
}

impl<const PLACES: usize, const WORDS: usize> Line<PLACES, WORDS> {
    /// Locks the chain that starts here.
    #[inline]
    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_after_others();
        }
    }

    #[cold]
    fn lock_after_others(&self) {
        spin_until(|| self.try_lock());
    }

    /// Locks the chain if it is unlocked.
    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        let header = self.header.load(Relaxed);
        // Read first: an exchange in vain would take the line from the processor of the thread that holds the lock.
        header & LOCKED == 0
            && self.header.compare_exchange(header, header | LOCKED, Acquire, Relaxed).is_ok()
    }

    /// The lock of the chain, which this thread has locked.
    #[inline]
    pub(super) const fn held_lock(&self) -> Lock<'_> {
        Lock::held(&self.header)
    }

    /// The number of the next line of the chain; 0 for none.
    pub(super) fn next(&self) -> u32 {
        self.header.load(Relaxed) & !LOCKED
    }

    /// Sets the next line of the chain, and keeps the lock as it is.
    pub(super) fn set_next(&self, next: u32) {
        let locked = self.header.load(Relaxed) & LOCKED;
        self.header.store(next | locked, Relaxed);
    }

    /// The places of the line.
    #[inline(always)]
    pub(super) fn places(&self) -> impl Iterator<Item = Place<'_, PLACES, WORDS>> {
        (0..PLACES).map(|index| Place { line: self, index })
    }
}

/// The place of a limiter, used or free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a, const PLACES: usize, const WORDS: usize> {
    line: &'a Line<PLACES, WORDS>,
    index: usize,
}

impl<'a, const PLACES: usize, const WORDS: usize> Place<'a, PLACES, WORDS> {
    /// The fingerprint of its limiter.
    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        let [a, b, c] = &self.line.fingerprints[self.index];
        Fingerprint::from_words([a.load(Relaxed), b.load(Relaxed), c.load(Relaxed)])
    }

    /// Returns whether its limiter has the fingerprint of these words.
    #[inline]
    pub(super) fn holds(&self, words: [u32; 3]) -> bool {
        let stored = &self.line.fingerprints[self.index];
        stored.iter().zip(words).all(|(stored, word)| stored.load(Relaxed) == word)
    }

    /// The words of the packed state.
    #[inline]
    pub(super) fn words(&self) -> &'a [AtomicU64] {
        &self.line.states[self.index]
    }

    /// The packed state.
    #[inline]
    pub(super) fn state(&self) -> [u64; WORDS] {
        self.line.states[self.index].each_ref().map(|word| word.load(Relaxed))
    }

    /// Replaces the packed state.
    #[inline]
    pub(super) fn set_state(&self, state: [u64; WORDS]) {
        self.words().iter().zip(state).for_each(|(to, word)| to.store(word, Relaxed));
    }

    /// Puts a limiter here.
    pub(super) fn put(&self, fingerprint: Fingerprint, state: [u64; WORDS]) {
        self.set_fingerprint(fingerprint.words());
        self.set_state(state);
    }

    /// Empties it.
    pub(super) fn clear(&self) {
        self.set_fingerprint([0; 3]);
        self.set_state([0; WORDS]);
    }

    fn set_fingerprint(&self, words: [u32; 3]) {
        let stored = &self.line.fingerprints[self.index];
        stored.iter().zip(words).for_each(|(stored, word)| stored.store(word, Relaxed));
    }
}

/// Lines in the first segment: 128 bytes, because of many rules most have few limiters. More for the model checker.
const FIRST: usize = if cfg!(loom) { 4 } else { 2 };
/// Segments that grow: each has as many lines as all before it.
const GROWING: usize = if cfg!(loom) { 5 } else { 8 };
/// Lines in the first and in all growing segments, and in each that comes after them: 32 KiB, the largest piece that is
/// made in one go.
const LARGE: usize = FIRST << GROWING;

/// Lines up to a fixed number. Making one invalidates no reference to another. Without lines it takes no memory of its
/// own, and with few lines at most twice the bytes they need.
#[derive(Debug)]
pub(super) struct Lines<L> {
    most: usize,
    first: OnceLock<Box<[L; FIRST]>>,
    growing: OnceLock<Box<[Segment<L>; GROWING]>>,
    /// The segments after the growing ones, which few tables need.
    large: OnceLock<Box<[Segment<L>]>>,
}

type Segment<L> = OnceLock<Box<[L]>>;

/// Where a line is among the growing segments.
struct Growing {
    segment: usize,
    /// Lines in all earlier segments, and in this segment.
    before: usize,
}

impl Growing {
    /// Finds a line by its number, from [`FIRST`] on and below [`LARGE`].
    #[inline]
    const fn of(number: usize) -> Self {
        // 0 for the numbers below twice `FIRST`, 1 below four times, and so on.
        let segment = (number / FIRST).ilog2() as usize;
        Self { segment, before: FIRST << segment }
    }
}

impl<L: Default> Lines<L> {
    /// Creates it without lines, with room for `most`.
    pub(super) const fn with_space_for(most: usize) -> Self {
        Self { most, first: OnceLock::new(), growing: OnceLock::new(), large: OnceLock::new() }
    }

    /// The line with a number; `None` if it was not made.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&L> {
        let number = number as usize;
        if number < FIRST {
            self.first.get()?.get(number)
        } else if number < LARGE {
            let Growing { segment, before } = Growing::of(number);
            self.growing.get()?.get(segment)?.get()?.get(number - before)
        } else {
            // The segments before have the first `LARGE` lines.
            self.large.get()?.get(number / LARGE - 1)?.get()?.get(number % LARGE)
        }
    }

    /// The bytes of the segments with the first `count` lines, if any line was made, and of their list.
    pub(super) fn bytes_up_to(&self, count: u32) -> usize {
        let count = count as usize;
        let lines = match self.first.get() {
            None => 0,
            Some(_) if count <= LARGE => count.next_power_of_two().max(FIRST),
            Some(_) => count.next_multiple_of(LARGE),
        };
        lines * size_of::<L>() + self.large.get().map_or(0, |large| size_of_val(&**large))
    }

    /// Makes the line with a number; `None` if there is no room for it.
    pub(super) fn make(&self, number: u32) -> Option<&L> {
        let number = number as usize;
        // The first segment is made as a whole.
        if number >= self.most.next_multiple_of(FIRST) {
            return None;
        }
        if number < FIRST {
            return self.first.get_or_init(Box::default).get(number);
        }
        if number < LARGE {
            let Growing { segment, before } = Growing::of(number);
            let segments = self.growing.get_or_init(Box::default);
            return made(segments.get(segment)?, before).get(number - before);
        }
        let segments = || (1..self.most.div_ceil(LARGE)).map(|_| OnceLock::new()).collect();
        let segment = self.large.get_or_init(segments).get(number / LARGE - 1)?;
        made(segment, LARGE).get(number % LARGE)
    }
}

/// The lines of a segment, which are made if they were not.
fn made<L: Default>(segment: &Segment<L>, lines: usize) -> &[L] {
    segment.get_or_init(|| (0..lines).map(|_| L::default()).collect())
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn every_line_is_one_cache_line() {
        let sizes = [size_of::<Line<3, 1>>(), size_of::<Line<2, 2>>(), size_of::<Line<1, 6>>()];
        assert_eq!(sizes, [64; 3]);
    }

    #[test]
    fn each_number_has_a_line_of_its_own_that_never_moves() {
        let lines = Lines::<Line<3, 1>>::with_space_for(3_000);
        assert!(lines.get(0).is_none() && lines.get(2_999).is_none());
        let made: Vec<_> = (0..3_000).map(|number| lines.make(number).unwrap()).collect();
        for (number, line) in (0..).zip(&made) {
            line.set_next(number);
        }
        for number in 0..3_000 {
            assert!(std::ptr::eq(lines.get(number).unwrap(), made[number as usize]));
            assert_eq!(lines.get(number).unwrap().next(), number);
        }
        assert!(lines.make(4_000).is_none());
    }

    #[test]
    fn few_lines_take_little_memory_and_many_at_most_twice_what_they_need() {
        let lines = Lines::<Line<3, 1>>::with_space_for(1 << 20);
        assert_eq!(lines.bytes_up_to(0), 0);
        for number in 0..3_000 {
            lines.make(number).unwrap();
            let (bytes, needed) = (lines.bytes_up_to(number + 1), (number as usize + 1) * 64);
            let list = if number as usize >= LARGE { ((1 << 20) / LARGE) * 24 } else { 0 };
            let most = (2 * needed).max(FIRST * 64).min(needed + LARGE * 64) + list;
            assert!((needed..=most).contains(&bytes), "{bytes} for {needed}");
        }
    }
}
