//! A clock that keeps its last reading, so that a caller knows when a limiter decided without
//! reading the clock twice.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_core::Timestamp;

use super::Clock;

/// Another clock and its last reading, for one decision on one thread.
pub struct RecordingClock<'a, C> {
    clock: &'a C,
    /// In microseconds; [`NONE_YET`] before the first reading.
    last: AtomicU64,
}

/// A value later than any reading.
const NONE_YET: u64 = u64::MAX;

impl<'a, C: Clock> RecordingClock<'a, C> {
    #[inline]
    /// A clock that has read nothing yet.
    pub const fn new(clock: &'a C) -> Self {
        Self { clock, last: AtomicU64::new(NONE_YET) }
    }

    /// The last reading, or the time now if there was none.
    #[inline]
    pub fn last(&self) -> Timestamp {
        match self.last.load(Relaxed) {
            NONE_YET => self.clock.now(),
            us => Timestamp::from_micros(us),
        }
    }
}

impl<C: Clock> Clock for RecordingClock<'_, C> {
    #[inline]
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        // One thread uses it. It is atomic only because a clock is shared by its type.
        self.last.store(now.as_micros(), Relaxed);
        now
    }

    fn never_steps_back(&self) -> bool {
        self.clock.never_steps_back()
    }
}
