//! A cache line of one to three limiters, and the lock over the chain of lines that starts with it.

use std::array::from_fn;
#[cfg(not(loom))]
use std::{hint, thread};

#[cfg(loom)]
use loom::{hint, thread};

use crate::key::Fingerprint;
use crate::store::memory::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// The bit of a header that is set while the chain is locked.
const LOCKED: u32 = 1 << 31;

/// Rounds of spinning before the thread yields the processor.
const ROUNDS: u32 = 64;

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
        // A chain is locked for less than a microsecond, unless its thread is not running: then that needs the processor.
        let mut rounds = 0;
        while !self.try_lock() {
            // Under the model checker always, because no other thread runs while this thread spins.
            if rounds == ROUNDS || cfg!(loom) {
                thread::yield_now();
            } else {
                rounds += 1;
                hint::spin_loop();
            }
        }
    }

    /// Locks the chain if it is unlocked.
    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        let header = self.header.load(Relaxed);
        header & LOCKED == 0
            && self.header.compare_exchange(header, header | LOCKED, Acquire, Relaxed).is_ok()
    }

    /// The lock of the chain, which this thread has locked.
    #[inline]
    pub(super) const fn held_lock(&self) -> Lock<'_> {
        Lock(&self.header)
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

/// The lock of a chain, held; unlocks when dropped.
#[derive(Debug)]
pub(in crate::store::memory) struct Lock<'a>(&'a AtomicU32);

impl Drop for Lock<'_> {
    #[inline]
    fn drop(&mut self) {
        // Not in one step, because only the thread with the lock writes the header.
        self.0.store(self.0.load(Relaxed) & !LOCKED, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Line;

    #[test]
    fn every_line_is_one_cache_line() {
        let sizes = [size_of::<Line<3, 1>>(), size_of::<Line<2, 2>>(), size_of::<Line<1, 6>>()];
        assert_eq!(sizes, [64; 3]);
    }
}
