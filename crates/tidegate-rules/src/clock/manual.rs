//! A clock that tests move by hand.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tidegate_core::{Micros, Timestamp};

use super::sleep::Sleep;
use super::{Clock, Park, Timer};
use crate::clock::unparks_this_thread;

/// A clock for tests. It stands still until it is moved, and then wakes the tasks and threads whose
/// times have come, in order. Clones are the same clock.
///
/// It never steps back. A new clock reads 2026-01-01 00:00:00 UTC, which begins an aligned window of every length that
/// divides a day.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, Limiter, ManualClock, Spec};
///
/// let clock = ManualClock::new();
/// let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(1));
/// let limiter = Limiter::with_clock(spec, clock.clone())?;
/// assert!(limiter.admits(1));
/// clock.advance(Duration::from_millis(999));
/// assert!(!limiter.admits(1));
/// clock.advance(Duration::from_millis(1));
/// assert!(limiter.admits(1));
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Hands>>);

/// The time, and the waits for later times.
#[derive(Debug)]
struct Hands {
    now: Timestamp,
    /// By time, then by arrival.
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
    slept: u64,
}

const NEW_YEAR: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

impl ManualClock {
    /// A clock that reads 2026-01-01 00:00:00 UTC.
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(NEW_YEAR)
    }

    /// A clock that reads `now`.
    #[must_use]
    pub fn starting_at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Hands { now, sleepers: BTreeMap::new(), slept: 0 })))
    }

    /// Advances the clock by the whole microseconds of `by`, and wakes all whose time has come. To stop at each of those
    /// times, alternate [`ManualClock::next_sleeper`] and [`ManualClock::advance_to`].
    pub fn advance(&self, by: Duration) {
        let to = self.now().plus(by);
        self.advance_to(to);
    }

    /// Advances the clock to `to`, if that is later, and wakes all whose time has come.
    pub fn advance_to(&self, to: Timestamp) {
        let woken = {
            let mut hands = self.hands();
            hands.now = hands.now.max(to);
            // The sleepers of later instants stay; the rest wake, outside of the lock.
            let after = hands.now.plus(Micros::from_micros(1));
            let later = hands.sleepers.split_off(&(after, 0));
            std::mem::replace(&mut hands.sleepers, later)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// The earliest instant that is waited for.
    #[must_use]
    pub fn next_sleeper(&self) -> Option<Timestamp> {
        self.hands().sleepers.keys().next().map(|(at, _)| *at)
    }

    /// The number of waits.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.hands().sleepers.len()
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.hands().now
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}

impl Timer for ManualClock {
    fn sleep_until(&self, at: Timestamp) -> Sleep {
        Sleep::new(Sleeper { clock: self.clone(), at, ticket: None })
    }
}

impl Park for ManualClock {
    fn park_until(&self, at: Timestamp) {
        let mut sleep = pin!(self.sleep_until(at));
        let waker = unparks_this_thread();
        // Registered before the thread parks: a wake that comes between lets `park` return immediately.
        if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            thread::park();
        }
    }
}

/// One wait for an instant; it is registered among the sleepers when it is first polled.
struct Sleeper {
    clock: ManualClock,
    at: Timestamp,
    ticket: Option<u64>,
}

impl Sleeper {
    /// Removes its waker from the sleepers, to be dropped outside of the lock.
    fn leave(&self) -> Option<Waker> {
        self.clock.hands().sleepers.remove(&(self.at, self.ticket?))
    }
}

impl Future for Sleeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        // Cloned outside of the lock, because a waker may run any code when it is cloned.
        let waker = context.waker().clone();
        let mut hands = self.clock.hands();
        if hands.now >= at {
            return Poll::Ready(());
        }
        // A second poll replaces the waker and keeps the place.
        let ticket = self.ticket.unwrap_or(hands.slept);
        hands.slept = hands.slept.max(ticket + 1);
        let before = hands.sleepers.insert((at, ticket), waker);
        drop(hands);
        self.ticket = Some(ticket);
        // Outside of the lock: it may own a task that sleeps by this clock as well.
        drop(before);
        Poll::Pending
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(sleep: &mut Sleep) -> Poll<()> {
        Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_sleep_ends_at_its_time_and_not_a_microsecond_sooner() {
        let clock = ManualClock::new();
        let at = clock.now().plus(Micros::from_micros(10));
        let mut sleep = clock.sleep_until(at);
        assert_eq!(poll(&mut sleep), Poll::Pending);
        assert_eq!(clock.next_sleeper(), Some(at));
        clock.advance(Duration::from_micros(9));
        assert_eq!(poll(&mut sleep), Poll::Pending);
        clock.advance(Duration::from_micros(1));
        assert_eq!((poll(&mut sleep), clock.sleepers()), (Poll::Ready(()), 0));
    }

    #[test]
    fn a_dropped_sleep_leaves_no_trace() {
        let clock = ManualClock::new();
        let mut sleep = clock.sleep_until(clock.now().plus(Micros::from_secs(1)));
        assert_eq!(poll(&mut sleep), Poll::Pending);
        drop(sleep);
        assert_eq!((clock.sleepers(), clock.next_sleeper()), (0, None));
    }

    #[test]
    fn a_parked_thread_goes_on_when_the_clock_is_moved() {
        let clock = ManualClock::new();
        let (mine, at) = (clock.clone(), clock.now().plus(Micros::from_secs(3_600)));
        let parked = thread::spawn(move || {
            while mine.now() < at {
                mine.park_until(at);
            }
        });
        while clock.sleepers() == 0 {
            thread::yield_now();
        }
        clock.advance_to(at);
        parked.join().unwrap();
    }
}
