//! The words of a packed limiter, its chain locked. Most steps over several limiters replace only these.
//!
//! They are made by a packed table for `several`, which runs the step on all limiters before it stores any words.
//! The lock of a chain is here as well, because it is held with the words alone.

use std::fmt;

use tidegate_core::Timestamp;

use super::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};
use crate::key::Fingerprint;
use crate::step::{One, Step};

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
        // Not in one step, because only the thread with the lock writes the header.
        self.0.store(self.0.load(Relaxed) & !LOCKED, Release);
    }
}

/// The maximum number of words of a packed state.
pub(super) const MOST_WORDS: usize = 6;

/// A table of packed states, of any algorithm.
pub(super) trait RunOnWords: fmt::Debug {
    /// Runs a step and keeps the words that it leaves.
    fn run_on_words(
        &self,
        locked: &mut LockedWords<'_>,
        cost: u64,
        step: Step,
        now: Timestamp,
    ) -> One;

    /// Drops a limiter whose words are all zero, which is idle.
    fn drop_if_empty(&self, fingerprint: Fingerprint);
}

/// The words of a limiter in any table of packed states, and the words that a step leaves there.
#[derive(Debug)]
pub(super) struct LockedWords<'a> {
    pub(super) table: &'a dyn RunOnWords,
    pub(super) fingerprint: Fingerprint,
    /// Unlocks the chain.
    pub(super) _lock: Lock<'a>,
    pub(super) kept: &'a [AtomicU64],
    pub(super) next: [u64; MOST_WORDS],
    /// True if the last step leaves other words.
    pub(super) changed: bool,
}

impl<'a> LockedWords<'a> {
    /// Runs a step, which stores nothing yet, in place of the last.
    #[inline]
    pub(super) fn run(&mut self, cost: u64, step: Step, now: Timestamp) -> One {
        self.table.run_on_words(self, cost, step, now)
    }

    /// Stores the words that the last step leaves. If they are all zero, returns the limiter to drop once it is unlocked.
    #[inline]
    pub(super) fn store(&self) -> Option<(&'a dyn RunOnWords, Fingerprint)> {
        if self.changed {
            // The unlocking publishes them.
            self.kept.iter().zip(self.next).for_each(|(to, word)| to.store(word, Relaxed));
        }
        // To compare with an array of zeros would be a call.
        let is_idle = self.changed && self.next.iter().all(|word| *word == 0);
        is_idle.then_some((self.table, self.fingerprint))
    }
}
