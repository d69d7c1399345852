//! A clock that keeps what it read: for who is to know when a limiter decided, and not to read it twice.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_core::Timestamp;

use super::Clock;

/// Another clock, and its last reading. Made for one decision, on the thread that asks.
pub(crate) struct Noting<'a, C> {
    clock: &'a C,
    /// In microseconds; [`NONE_YET`] before the first.
    last: AtomicU64,
}

/// No reading is as late as this.
const NONE_YET: u64 = u64::MAX;

impl<'a, C: Clock> Noting<'a, C> {
    #[inline]
    pub(crate) const fn new(clock: &'a C) -> Self {
        Self { clock, last: AtomicU64::new(NONE_YET) }
    }

    /// What was read last; now, where nothing was.
    #[inline]
    pub(crate) fn last(&self) -> Timestamp {
        match self.last.load(Relaxed) {
            NONE_YET => self.clock.now(),
            us => Timestamp::from_micros(us),
        }
    }
}

impl<C: Clock> Clock for Noting<'_, C> {
    #[inline]
    fn now(&self) -> Timestamp {
        let now = self.clock.now();
        self.last.store(now.as_micros(), Relaxed);
        now
    }

    fn never_steps_back(&self) -> bool {
        self.clock.never_steps_back()
    }
}
