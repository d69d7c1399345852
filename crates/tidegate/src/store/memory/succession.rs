//! The succession of a rule's tables: which generations may ask a table, and which tables it succeeds.
//!
//! A step asks a table only with a part of it locked, and then reads the table's mark. A change marks the tables of a
//! rule before it publishes their successors, so a step that saw no mark comes before any limiter is moved out of that
//! part. The new table is locked before the old table.

use std::sync::{Arc, PoisonError};

use tidegate_core::{Rates, Rule, Timestamp};

use super::sync::{
    AtomicU64,
    Ordering::{Acquire, Release},
    RwLock,
};
use crate::step::Step;

/// The number of a policy among the policies that a gate was given; the first has 0.
pub(crate) type GenerationNumber = u64;

/// The generation in which a table that was superseded would be asked: there is none.
pub(super) const NEVER: GenerationNumber = GenerationNumber::MAX / 2;
/// The generation in which steps give back to the limiters that are kept under an unlimited rule.
pub(super) const KEPT: GenerationNumber = NEVER - 1;

/// A newer generation is in force: nothing was taken, and the step must ask the newer generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved;

/// The mark of a table, and the tables whose limiters are moved into it.
#[derive(Debug)]
pub(super) struct Succession<T: ?Sized> {
    /// The rule of the table.
    pub(super) rule: Rule,
    /// When the rule took effect.
    pub(super) at: Timestamp,
    /// Since when the rules of these tables give units back alike, and which limits they had since then.
    pub(super) meaning_since: Timestamp,
    pub(super) rates: Rates,
    /// Twice the number of the first generation that may ask; plus one while there are tables that it succeeds.
    mark: AtomicU64,
    old: RwLock<Box<[Arc<T>]>>,
}

impl<T: ?Sized> Succession<T> {
    /// Creates the succession of the table of `rule`, which takes effect at `at` and succeeds the `old` tables.
    pub(super) fn new(rule: Rule, at: Timestamp, old: Vec<Arc<T>>) -> Self {
        let mark = AtomicU64::new(u64::from(!old.is_empty()));
        let meaning_since = Timestamp::EPOCH;
        let rates = Rates::default();
        Self { rule, at, meaning_since, rates, mark, old: RwLock::new(old.into()) }
    }

    /// Returns the step on a limiter of the table, which knows since when its rule has its meaning.
    #[inline]
    pub(super) fn dated(&self, step: Step) -> Step {
        step.dated(self.meaning_since, &self.rates)
    }

    /// Checks that a step of this generation may ask; returns whether limiters have to be moved first.
    ///
    /// # Errors
    /// Returns [`Moved`] if the step must ask again in the newest generation.
    #[inline]
    pub(super) fn check(&self, generation: GenerationNumber) -> Result<bool, Moved> {
        let mark = self.mark.load(Acquire);
        if mark / 2 > generation { Err(Moved) } else { Ok(mark % 2 == 1) }
    }

    /// Lets only steps of this generation and of later ones ask.
    pub(super) fn serve_since(&self, generation: GenerationNumber) {
        // Not in one step, because changes of a rule come one at a time.
        let moves = self.mark.load(Acquire) % 2;
        self.mark.store(generation * 2 + moves, Release);
    }

    /// Returns the first result of `take` over the old tables.
    pub(super) fn take<O>(&self, take: impl FnMut(&T) -> Option<O>) -> Option<O> {
        let old = self.old.read().unwrap_or_else(PoisonError::into_inner);
        old.iter().map(|old| &**old).find_map(take)
    }

    /// Returns the result of `take` for the first old table.
    pub(super) fn take_from_first<O>(&self, take: impl FnOnce(&T) -> Option<O>) -> Option<O> {
        let old = self.old.read().unwrap_or_else(PoisonError::into_inner);
        old.first().and_then(|old| take(old))
    }

    /// Drops the old tables, which are empty now.
    pub(super) fn end(&self) {
        let mark = self.mark.load(Acquire);
        // First the mark: a step that sees it looks into no old table.
        self.mark.store(mark - mark % 2, Release);
        *self.old.write().unwrap_or_else(PoisonError::into_inner) = Box::default();
    }
}
