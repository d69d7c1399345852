//! What decides once the rule of a limiter was changed.
//!
//! A limiter reads what it was built with without any lock, so that can not be replaced while somebody
//! may be in it. On the first change it is *closed*, for good: from then on its verbs go on here. That
//! costs a reader's lock, and only the limiters whose rule was ever changed. What follows it can be
//! replaced under the writer's lock, so later changes leave nothing behind.
//!
//! A cell whose debt is too large for its words goes on here as well, under the same rule.

use std::sync::{Arc, PoisonError};

use tidegate_core::Rule;

use super::sync::{
    AtomicU32,
    Ordering::{Acquire, Release},
    RwLock, RwLockReadGuard, RwLockWriteGuard,
};

/// The cell or the table that is in force after a change.
#[derive(Debug)]
pub(crate) struct Later<T: ?Sized> {
    /// Whether there was a change (1).
    begun: AtomicU32,
    current: RwLock<Current<T>>,
}

/// What a change has put in force.
#[derive(Debug)]
pub(super) struct Current<T: ?Sized> {
    /// `None` when unlimited.
    pub(super) limiters: Option<Box<T>>,
    /// The figures, where answers are to tell them.
    pub(super) rule: Option<Arc<Rule>>,
}

impl<T: ?Sized> Later<T> {
    /// For a limiter that was not changed yet.
    pub(crate) fn none_yet() -> Arc<Self> {
        let current = RwLock::new(Current { limiters: None, rule: None });
        Arc::new(Self { begun: AtomicU32::new(0), current })
    }

    /// Whether there was a change. One that is under way counts only where something was closed: who
    /// is told "no" decides as before it.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Acquire) != 0
    }

    /// Asks what is in force, `None` when unlimited; waits for a change that is under way.
    #[cold]
    pub(super) fn with<O>(&self, ask: impl FnOnce(Option<&T>) -> O) -> O {
        ask(self.read().limiters.as_deref())
    }

    /// What is in force, held so that it is not changed meanwhile; waits for a change that is under way.
    #[cold]
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Current<T>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, unless it would have to wait.
    pub(super) fn try_read(&self) -> Option<RwLockReadGuard<'_, Current<T>>> {
        self.current.try_read().ok()
    }

    /// The same to be changed: nobody is in it meanwhile, and who meets what was closed waits.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Current<T>> {
        self.current.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that there was a change; by who still has the guard of [`Later::write`].
    pub(super) fn begin(&self) {
        self.begun.store(1, Release);
    }

    /// Puts in force what `next` makes of what was in force until now: of `first` before the first
    /// change. Nobody is in what came after it meanwhile.
    pub(super) fn change<O>(
        &self,
        first: Option<&T>,
        next: impl FnOnce(Option<&T>) -> (Option<Box<T>>, O),
    ) -> O {
        let mut current = self.write();
        let last = if self.has_begun() { current.limiters.as_deref() } else { first };
        let (next, told) = next(last);
        current.limiters = next;
        self.begin();
        told
    }

    /// Puts in force what `next` makes of what was in force from the beginning, unless something
    /// followed that already.
    #[cold]
    pub(super) fn follow(&self, next: impl FnOnce() -> Box<T>) {
        let mut current = self.write();
        if !self.has_begun() {
            current.limiters = Some(next());
            self.begin();
        }
    }
}
