//! The cell that decides once the rule of a limiter without a key was changed.
//!
//! A cell reads what it was built with without any lock, so that cannot be replaced while somebody
//! may be in it. On the first change it is *closed*, for good: from then on its verbs go on here. That
//! costs a reader's lock, and only the limiters whose rule was ever changed. What follows it can be
//! replaced under the writer's lock, so later changes leave nothing behind.
//!
//! A cell whose debt is too large for its words goes on here as well, under the same rule.

use std::sync::{Arc, PoisonError};

use super::sync::{
    AtomicU32,
    Ordering::{Acquire, Release},
    RwLock,
};

/// The cell that is in force after a change.
#[derive(Debug)]
pub(crate) struct Later<T: ?Sized> {
    /// Whether there was a change (1).
    begun: AtomicU32,
    /// `None` when unlimited.
    current: RwLock<Option<Box<T>>>,
}

impl<T: ?Sized> Later<T> {
    /// For a limiter that was not changed yet.
    pub(crate) fn none_yet() -> Arc<Self> {
        Arc::new(Self { begun: AtomicU32::new(0), current: RwLock::new(None) })
    }

    /// Whether there was a change. One that is under way counts only where something was closed: whoever
    /// is told "no" decides as before it.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Acquire) != 0
    }

    /// Asks what is in force, `None` when unlimited; waits for a change that is under way.
    #[cold]
    pub(super) fn with<O>(&self, ask: impl FnOnce(Option<&T>) -> O) -> O {
        ask(self.current.read().unwrap_or_else(PoisonError::into_inner).as_deref())
    }

    /// Puts in force what `next` makes of what was in force until now: of `first` before the first
    /// change. Nobody is in what came after it meanwhile.
    pub(super) fn change(
        &self,
        first: Option<&T>,
        next: impl FnOnce(Option<&T>) -> Option<Box<T>>,
    ) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = next(if self.has_begun() { current.as_deref() } else { first });
        self.begun.store(1, Release);
    }

    /// Puts in force what `next` makes of what was in force from the beginning, unless something
    /// followed that already.
    #[cold]
    pub(super) fn follow(&self, next: impl FnOnce() -> Box<T>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if !self.has_begun() {
            *current = Some(next());
            self.begun.store(1, Release);
        }
    }
}
