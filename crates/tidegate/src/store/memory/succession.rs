//! How a table stands among those of its rule: which generations may ask it, and which tables it succeeds.
//!
//! A step asks a table only under the lock of a part of it, and there looks at the table's mark. A change marks
//! the tables of a rule before it publishes those that succeed them, so a step that saw no mark comes before
//! whatever is moved out of that part. Locks are taken of the new table first, then of the old one.

use std::sync::{Arc, PoisonError};

use tidegate_core::{Rule, Timestamp};

use super::sync::{
    AtomicU64,
    Ordering::{Acquire, Release},
    RwLock,
};

/// The number of a policy among those that a gate was given; the first has 0.
pub(crate) type GenerationNumber = u64;

/// A newer generation has been put in force: nothing was taken, and the step is to be asked again in that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved;

/// The mark of a table, and the tables whose limiters are moved into it.
#[derive(Debug)]
pub(super) struct Succession<T: ?Sized> {
    /// The rule of the table.
    pub(super) rule: Rule,
    /// When that came in force.
    pub(super) at: Timestamp,
    /// Twice the number of the first generation that may ask; one more while there are tables it succeeds.
    mark: AtomicU64,
    old: RwLock<Vec<Arc<T>>>,
}

impl<T: ?Sized> Succession<T> {
    /// For the table of `rule`, which comes in force at `at` and succeeds these tables.
    pub(super) fn new(rule: Rule, at: Timestamp, old: Vec<Arc<T>>) -> Self {
        let mark = AtomicU64::new(u64::from(!old.is_empty()));
        Self { rule, at, mark, old: RwLock::new(old) }
    }

    /// Whether a step of this generation may ask; returns whether there are limiters to be moved first.
    ///
    /// # Errors
    /// The step is to be asked again in the newest generation.
    #[inline]
    pub(super) fn check(&self, generation: GenerationNumber) -> Result<bool, Moved> {
        let mark = self.mark.load(Acquire);
        if mark / 2 > generation { Err(Moved) } else { Ok(mark % 2 == 1) }
    }

    /// Lets steps of this generation and of later ones ask, and no others.
    pub(super) fn serve_since(&self, generation: GenerationNumber) {
        let moves = self.mark.load(Acquire) % 2;
        self.mark.store(generation * 2 + moves, Release);
    }

    /// Lets no step ask any more.
    pub(super) fn supersede(&self) {
        self.serve_since(GenerationNumber::MAX / 2);
    }

    /// Takes what the first of the old tables returns that has anything.
    pub(super) fn take<O>(&self, take: impl FnMut(&T) -> Option<O>) -> Option<O> {
        let old = self.old.read().unwrap_or_else(PoisonError::into_inner);
        old.iter().map(|old| &**old).find_map(take)
    }

    /// Takes what the first old table, and no other, returns.
    pub(super) fn take_from_first<O>(&self, take: impl FnOnce(&T) -> Option<O>) -> Option<O> {
        let old = self.old.read().unwrap_or_else(PoisonError::into_inner);
        old.first().and_then(|old| take(old))
    }

    /// Drops the old tables: nothing is left in them.
    pub(super) fn end(&self) {
        let mark = self.mark.load(Acquire);
        self.mark.store(mark - mark % 2, Release);
        self.old.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
