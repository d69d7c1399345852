//! The words of a packed limiter, its chain locked. Most steps over several limiters replace only these.

use super::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

/// The bit of a chain's header that is set while it is locked.
pub(super) const LOCKED: u32 = 1 << 31;

/// The lock of a chain, held; unlocks when dropped.
#[derive(Debug)]
pub(super) struct Lock<'a>(&'a AtomicU32);

impl<'a> Lock<'a> {
    /// The lock of the chain with this header, which this thread has locked.
    pub(super) const fn held(header: &'a AtomicU32) -> Self {
        Self(header)
    }
}

impl Drop for Lock<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(self.0.load(Relaxed) & !LOCKED, Release);
    }
}

/// The maximum number of words of a packed state.
pub(super) const MOST_WORDS: usize = 6;

/// The words of a limiter in any table of packed states, and the words that a step leaves there.
#[derive(Debug)]
pub(super) struct LockedWords<'a> {
    /// Unlocks the chain.
    pub(super) _lock: Lock<'a>,
    pub(super) kept: &'a [AtomicU64],
    pub(super) next: [u64; MOST_WORDS],
    pub(super) changed: bool,
}

impl LockedWords<'_> {
    /// Returns whether the last step leaves other words.
    pub(super) const fn are_changed(&self) -> bool {
        self.changed
    }

    /// Stores the words that the last step leaves, and unlocks.
    #[inline]
    pub(super) fn store(self) {
        if self.changed {
            self.kept.iter().zip(self.next).for_each(|(to, word)| to.store(word, Relaxed));
        }
    }
}
