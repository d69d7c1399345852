//! The words of a limiter without a key, read and replaced as a whole without a lock.
//!
//! A single word is its own head: a compare-and-swap replaces it. Several words follow a head with their version.
//! A reader that finds the same version before and after has read words of one state; a writer locks the head with a
//! compare-and-swap of the version that it read, so it replaces no other state, and unlocks it by a store.

use std::array::from_fn;

use crate::store::memory::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence, spin_until,
};

/// The bit of a head without words to be read: the bit that packed states leave free.
const MARK: u64 = 1 << 63;
/// The head of a closed cell.
pub(super) const CLOSED: u64 = MARK;
/// The head while the state is not packed.
pub(super) const UNPACKED: u64 = MARK | 1;
/// The head while a thread replaces several words.
const LOCKED: u64 = MARK | 2;

/// The words; without any, the state is never packed.
#[derive(Debug)]
pub(super) struct Words<const WORDS: usize> {
    head: AtomicU64,
    /// Several words; a single word is in the head.
    rest: [AtomicU64; WORDS],
}

/// Words of one state, with the head under which they were read.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordsRead<const WORDS: usize> {
    pub(super) head: u64,
    pub(super) words: [u64; WORDS],
}

impl<const WORDS: usize> Words<WORDS> {
    /// Creates words of an idle state.
    pub(super) fn new() -> Self {
        let head = if WORDS == 0 { UNPACKED } else { 0 };
        Self { head: AtomicU64::new(head), rest: from_fn(|_| AtomicU64::new(0)) }
    }

    /// The head, which may be locked.
    pub(super) fn head(&self) -> u64 {
        self.head.load(Acquire)
    }

    /// Reads the words; `None` if the state is not packed, or the cell is closed.
    #[inline(always)]
    pub(super) fn read(&self) -> Option<WordsRead<WORDS>> {
        if WORDS == 0 {
            return None;
        }
        loop {
            let head = self.head();
            if head & MARK != 0 {
                if WORDS == 1 || head != LOCKED {
                    return None;
                }
                self.wait();
                continue;
            }
            if WORDS == 1 {
                return Some(WordsRead { head, words: [head; WORDS] });
            }
            let words = from_fn(|index| self.rest.get(index).map_or(0, |word| word.load(Relaxed)));
            // A reader of a word that was stored since reads the head of that time, or a later head.
            fence(Acquire);
            if self.head.load(Relaxed) == head {
                return Some(WordsRead { head, words });
            }
        }
    }

    /// Replaces the words that were read; false if the head is another by then, or for no reason.
    #[inline(always)]
    pub(super) fn replace(&self, seen: u64, words: [u64; WORDS]) -> bool {
        let locked = if WORDS == 1 { head_of(0, words) } else { LOCKED };
        let is_replaced = self.head.compare_exchange_weak(seen, locked, AcqRel, Relaxed).is_ok();
        if is_replaced && WORDS > 1 {
            self.put(seen, words);
        }
        is_replaced
    }

    /// Puts a mark in place of the head that was read; false if the head is another by then.
    pub(super) fn mark(&self, seen: u64, mark: u64) -> bool {
        self.head.compare_exchange(seen, mark, AcqRel, Relaxed).is_ok()
    }

    /// Stores words after the last version. Only the thread that has locked the head calls it, or that holds the lock of
    /// a state that is not packed.
    #[inline(always)]
    pub(super) fn put(&self, last_version: u64, words: [u64; WORDS]) {
        if WORDS > 1 {
            // Orders the marked head before the words, for readers: see `read`.
            fence(Release);
            self.rest.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        }
        self.head.store(head_of(last_version, words), Release);
    }

    #[cold]
    fn wait(&self) {
        spin_until(|| self.head.load(Relaxed) != LOCKED);
    }
}

/// The head of words: a single word, or the version after the last.
#[inline(always)]
fn head_of<const WORDS: usize>(last_version: u64, words: [u64; WORDS]) -> u64 {
    match words.first() {
        Some(word) if WORDS == 1 => *word,
        _ => (last_version + 1) & !MARK,
    }
}
