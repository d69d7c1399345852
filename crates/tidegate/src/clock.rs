//! The one place that reads the time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_core::Timestamp;

/// Where a gate takes the time from.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// A clock that always reads the same: the time a recorded request carries.
impl Clock for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }
}

/// The wall time at its making, moved on by a monotonic counter: it never steps backward, and readings
/// of all threads are in one order.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started_at: Timestamp,
    started: Instant,
}

impl SystemClock {
    /// Reads the wall clock once.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is where the time is read")]
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_at =
            Timestamp::from_micros(u64::try_from(wall.as_micros()).unwrap_or(u64::MAX));
        Self { started_at, started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let passed = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        Timestamp::from_micros(self.started_at.as_micros().saturating_add(passed))
    }
}
