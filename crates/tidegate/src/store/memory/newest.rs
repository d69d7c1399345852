//! The newest of several values; threads read it without writing to memory that they share.
//!
//! A value has *tables*, of one rule or of all rules of a policy: a table holds the limiters of a rule by key. The tables of
//! the old value are marked before the new value is published, so that a step that meets a mark asks the new value.

use std::fmt;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, PoisonError};

use super::succession::Moved;
use super::sync::RwLock;

/// A value that is replaced now and then.
#[derive(Debug)]
pub(crate) struct Newest<T> {
    value: Value<T>,
    /// Locked to publish another value, from before the tables of the old value are marked.
    publishing: RwLock<()>,
}

#[cfg(not(loom))]
type Value<T> = arc_swap::ArcSwap<T>;
/// The model checker sees each access to it.
#[cfg(loom)]
type Value<T> = RwLock<Arc<T>>;

#[cfg(not(loom))]
type Held<T> = arc_swap::Guard<Arc<T>>;
#[cfg(loom)]
type Held<T> = Arc<T>;

/// A value that was the newest when it was read. It stays until this is dropped.
pub(crate) struct Kept<T>(Held<T>);

impl<T> Deref for Kept<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

// A `Kept` is only read, and the locks of tables are sound after a panic.
impl<T> UnwindSafe for Kept<T> {}
impl<T> RefUnwindSafe for Kept<T> {}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self::from(self.share())
    }
}

impl<T: fmt::Debug> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> From<Arc<T>> for Kept<T> {
    fn from(value: Arc<T>) -> Self {
        #[cfg(not(loom))]
        let value = Held::from_inner(value);
        Self(value)
    }
}

impl<T> Kept<T> {
    /// Returns a shared handle for longer use, at the cost of a count that threads share.
    pub(crate) fn share(&self) -> Arc<T> {
        let value: &Arc<T> = &self.0;
        Arc::clone(value)
    }
}

impl<T> Newest<T> {
    pub(crate) fn new(first: T) -> Self {
        let value = Arc::new(first);
        Self { value: Value::from(value), publishing: RwLock::new(()) }
    }

    /// The newest value.
    #[inline]
    pub(crate) fn read(&self) -> Kept<T> {
        #[cfg(not(loom))]
        let held = self.value.load();
        #[cfg(loom)]
        let held = Arc::clone(&self.value.read().unwrap_or_else(PoisonError::into_inner));
        Kept(held)
    }

    /// Asks the newest value, and again a newer one if the value reports that there is one, or will be; returns the reply
    /// with the value that gave it.
    #[inline]
    pub(super) fn ask<O>(&self, ask: impl Fn(&T) -> Result<O, Moved>) -> (Kept<T>, O) {
        loop {
            let value = self.read();
            if let Ok(reply) = ask(&value) {
                return (value, reply);
            }
            self.wait_for_newer();
        }
    }

    /// Waits until the value that a step reported is published.
    #[cold]
    pub(super) fn wait_for_newer(&self) {
        drop(self.publishing.read().unwrap_or_else(PoisonError::into_inner));
    }

    /// Publishes the value that `make` makes; `make` may mark the tables of the old value.
    pub(crate) fn publish(&self, make: impl FnOnce() -> T) {
        let publishing = self.publishing.write().unwrap_or_else(PoisonError::into_inner);
        // Locked already: a step that meets a mark made here waits until the value is published.
        let value = Arc::new(make());
        #[cfg(not(loom))]
        self.value.store(value);
        #[cfg(loom)]
        {
            *self.value.write().unwrap_or_else(PoisonError::into_inner) = value;
        }
        drop(publishing);
    }
}
