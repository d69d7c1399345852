//! Counts of the attempts to put another configuration in force.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use tidegate::{Clock, SystemClock};

/// The attempts since the start, and when the last one ended.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    succeeded: AtomicU64,
    failed: AtomicU64,
    last_us: AtomicU64,
    error: Mutex<Option<String>>,
}

impl Reloads {
    /// The attempts that succeeded, and those that left the configuration before in force.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.succeeded.load(Relaxed), self.failed.load(Relaxed))
    }

    /// When the last attempt ended, in microseconds since 1970; `None` before the first.
    pub(crate) fn last_us(&self) -> Option<u64> {
        Some(self.last_us.load(Relaxed)).filter(|at| *at > 0)
    }

    /// Why the last attempt failed, if it did.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn succeeded(&self) {
        self.succeeded.fetch_add(1, Relaxed);
        self.ended(None);
    }

    pub(crate) fn failed(&self, error: String) {
        self.failed.fetch_add(1, Relaxed);
        self.ended(Some(error));
    }

    fn ended(&self, error: Option<String>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        self.last_us.store(SystemClock::new().now().as_micros(), Relaxed);
    }
}
