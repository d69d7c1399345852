//! Counts of the attempts to put another configuration in force, and the error of the last. `configuration.rs`
//! counts; `GET /v1/rules` and metrics read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use tidegate::{Clock, SystemClock};

/// The attempts since the start, and the time when the last attempt ended.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    succeeded: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    last_us: AtomicU64,
    error: Mutex<Option<String>>,
}

impl Reloads {
    /// The attempts by outcome.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 3] {
        [("succeeded", &self.succeeded), ("failed", &self.failed), ("refused", &self.refused)]
            .map(|(outcome, count)| (outcome, count.load(Relaxed)))
    }

    /// When the last attempt that was not refused ended, in microseconds since 1970; `None` before the first.
    pub(crate) fn last_us(&self) -> Option<u64> {
        Some(self.last_us.load(Relaxed)).filter(|at| *at > 0)
    }

    /// Why the file could not be put in force when it was read last, if it could not.
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

    /// Counts a configuration that a client brought and that was refused: the file and the configuration in force still
    /// agree.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    fn ended(&self, error: Option<String>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        self.last_us.store(SystemClock::new().now().as_micros(), Relaxed);
    }
}
