//! Counts of the snapshots that were written. `snapshot_file.rs` counts, and metrics read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate::{Clock, Histogram, SystemClock};

/// The attempts since the start, and the last that succeeded.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    succeeded: AtomicU64,
    failed: AtomicU64,
    /// When the last attempt that succeeded ended, in microseconds since 1970; before the first, when the server
    /// started.
    pub(crate) last_us: AtomicU64,
    /// The length of the last file.
    pub(crate) bytes: AtomicU64,
    pub(crate) durations: Histogram,
}

impl Snapshots {
    /// From now on there is a file.
    pub(crate) fn begin(&self) {
        self.last_us.store(SystemClock::new().now().as_micros(), Relaxed);
    }

    /// Returns whether there is a file.
    pub(crate) fn is_on(&self) -> bool {
        self.last_us.load(Relaxed) > 0
    }

    /// The attempts that succeeded, and those that failed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.succeeded.load(Relaxed), self.failed.load(Relaxed))
    }

    pub(crate) fn succeeded(&self, bytes: u64, took: Duration) {
        self.begin();
        self.bytes.store(bytes, Relaxed);
        self.durations.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), 1);
        self.succeeded.fetch_add(1, Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }
}
