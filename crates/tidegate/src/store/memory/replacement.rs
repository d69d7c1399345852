//! The cell that decides after a change of the rule of a limiter without a key.
//!
//! A cell is read without a lock, so it cannot be replaced while threads may read it. The first change *closes* it
//! for good, and from then on the cell kept here decides, under a reader's lock. Later changes replace that cell
//! under the writer's lock. A limiter that never changes pays nothing.

use std::sync::{Arc, PoisonError};

use super::sync::{
    AtomicU32,
    Ordering::{Acquire, Release},
    RwLock,
};

/// The cell that is in force after a change.
#[derive(Debug)]
pub(crate) struct Replacement<T: ?Sized> {
    /// 1 after the first change.
    begun: AtomicU32,
    /// `None` before the first change.
    current: RwLock<Option<Box<T>>>,
}

impl<T: ?Sized> Replacement<T> {
    /// The replacement of a limiter that has not changed yet.
    pub(crate) fn none_yet() -> Arc<Self> {
        Arc::new(Self { begun: AtomicU32::new(0), current: RwLock::new(None) })
    }

    /// Returns whether there was a change. A running change is visible only after it closed the cell: a caller that
    /// reads `false` decides as before the change.
    #[inline]
    pub(crate) fn is_in_force(&self) -> bool {
        self.begun.load(Acquire) != 0
    }

    /// Asks the cell in force, `None` before the first change; waits for a running change.
    #[cold]
    pub(super) fn with<O>(&self, ask: impl FnOnce(Option<&T>) -> O) -> O {
        ask(self.current.read().unwrap_or_else(PoisonError::into_inner).as_deref())
    }

    /// Puts in force the cell that `next` makes of the current one, which is `first` before the first change. No
    /// thread reads the replaced cell during the change.
    pub(super) fn change(&self, first: &T, next: impl FnOnce(&T) -> Box<T>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(next(current.as_deref().unwrap_or(first)));
        self.begun.store(1, Release);
    }
}
