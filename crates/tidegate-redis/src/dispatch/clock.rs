//! A clock of the time that the store's thread ran, without the times when it was ready to run and
//! did not.
//!
//! While anything waits, the thread reads the clock every millisecond or so. A longer gap is its
//! own lateness (no processor was free, or it was busy itself), not the store's: it counts for no
//! deadline, no silence and no round trip.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

/// The longest gap between two readings that is normal.
const USUAL: Duration = Duration::from_millis(1);
/// The shortest gap that is lateness.
const LONG: Duration = Duration::from_millis(3);

/// A clock that stands still while its thread does.
#[derive(Debug)]
pub(super) struct ThreadClock {
    last: Cell<Instant>,
    stalled: Cell<Duration>,
}

impl ThreadClock {
    pub(super) fn new() -> Self {
        Self { last: Cell::new(Instant::now()), stalled: Cell::new(Duration::ZERO) }
    }

    /// The time by this clock; never before its last reading.
    pub(super) fn now(&self) -> Instant {
        self.at(Instant::now())
    }

    /// The time by this clock, and by the real one.
    pub(super) fn both(&self) -> (Instant, Instant) {
        let real = Instant::now();
        (self.at(real), real)
    }

    fn at(&self, real: Instant) -> Instant {
        let gap = real.duration_since(self.last.replace(real));
        if gap > LONG {
            // The usual gap counts as time in which the thread ran.
            self.stalled.set(self.stalled.get() + (gap - USUAL));
        }
        real - self.stalled.get()
    }

    /// The time that the thread has stood still so far. An instant of the real clock, minus this, is an instant of this
    /// clock.
    pub(super) fn stalled(&self) -> Duration {
        self.stalled.get()
    }

    /// Notes that the thread rested because there was nothing to do, which is no lateness.
    pub(super) fn rested(&self) {
        self.last.set(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_did_not_run_takes_no_time_from_the_store() {
        let clock = ThreadClock::new();
        let start = clock.last.get();
        let ms = Duration::from_millis;
        let read = |after| clock.at(start + ms(after)).duration_since(start);
        assert_eq!([1, 3, 5].map(read), [1, 3, 5].map(ms));
        assert_eq!(read(25), ms(6), "19 ms of 20 were its own lateness");
        assert_eq!(read(26), ms(7));
        assert_eq!(clock.stalled(), ms(19));
    }
}
