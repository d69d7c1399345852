//! Clocks, which read the time and wait for it. No other module does.

#[cfg(feature = "shared")]
mod boot;
mod manual;
mod recording;
mod sleep;
#[cfg(feature = "tokio")]
mod tokio;

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_core::Timestamp;

#[cfg(feature = "tokio")]
pub use self::tokio::TokioClock;
#[cfg(feature = "shared")]
pub use boot::BootClock;
pub use manual::ManualClock;
pub use recording::RecordingClock;
pub use sleep::Sleep;
pub use sleep::unparks_this_thread;

/// The source of time of a gate or a limiter.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use tidegate::{Clock, Limiter, RuleErrors, Timestamp};
///
/// /// The time of a simulation, in its ticks of a millisecond.
/// struct Ticks(AtomicU64);
///
/// impl Clock for Ticks {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_micros(self.0.load(Ordering::Relaxed) * 1_000)
///     }
/// }
///
/// let limiter = Limiter::with_clock("1/s", Ticks(AtomicU64::new(5)))?;
/// assert!(limiter.admits(1) && !limiter.admits(1));
/// # Ok::<(), RuleErrors>(())
/// ```
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Returns whether no reading is ever before a reading that any thread has seen, and all are within nine years of
    /// the first. Limiters are then packed into a few words each, most without the time of their last unit. Under a
    /// clock that may step back (the default) they are not packed.
    #[inline]
    fn never_steps_back(&self) -> bool {
        false
    }
}

/// A clock that a task can wait for, without blocking its thread.
///
/// [`ManualClock`] implements it for tests; with the feature `tokio`, [`SystemClock`] and
/// [`TokioClock`] do, inside a tokio runtime. For any other runtime, implement it over that
/// runtime's timer.
#[diagnostic::on_unimplemented(
    note = "with the feature `tokio` of tidegate, `SystemClock` and `TokioClock` are timers"
)]
pub trait Timer: Clock {
    /// Resolves when this clock reads `at` or later; immediately if it already does. It may resolve
    /// late, and slightly early: the caller then reads the clock and waits again. Dropping it ends
    /// the wait.
    fn sleep_until(&self, at: Timestamp) -> Sleep;
}

/// A clock that a thread can wait for, by blocking.
pub trait Park: Clock {
    /// Blocks the thread until this clock reads `at` or the thread is unparked, whichever is first.
    /// It may return early for no reason, as [`std::thread::park`] may.
    fn park_until(&self, at: Timestamp);
}

/// A clock, and its reading from before anything was locked.
///
/// A limiter with a packed state never goes back in time, so the early reading is good enough for it; if another step
/// overtook the reading, the state shows it. Any other limiter reads the clock under its lock: a reading that another
/// step overtook would look like a clock gone backward.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// [`Reading::NOT_YET`] if no limiter is expected to want it.
    early: Timestamp,
    clock: &'a dyn Clock,
}

impl<'a> Reading<'a> {
    const NOT_YET: Timestamp = Timestamp::MAX;

    /// Reads the clock.
    #[inline]
    pub fn of<C: Clock>(clock: &'a C) -> Self {
        Self { early: clock.now(), clock }
    }

    /// Reads the clock now if the limiter `wants` the early reading.
    #[inline]
    pub fn if_wanted<C: Clock>(wants: bool, clock: &'a C) -> Self {
        Self { early: if wants { clock.now() } else { Self::NOT_YET }, clock }
    }

    /// Splits it into two parts, which are passed in registers while the whole would not be; for a
    /// limiter that wants the first.
    #[inline]
    pub const fn apart(self) -> (Timestamp, &'a dyn Clock) {
        (self.early, self.clock)
    }

    /// The inverse of [`Reading::apart`].
    #[inline]
    pub const fn joined(early: Timestamp, clock: &'a dyn Clock) -> Self {
        Self { early, clock }
    }

    /// The early reading.
    #[inline]
    pub fn early(self) -> Timestamp {
        if self.early == Self::NOT_YET { self.clock.now() } else { self.early }
    }

    /// A new reading.
    #[inline]
    pub fn anew(self) -> Timestamp {
        self.clock.now()
    }
}

/// A clock that always returns the same time, such as the time of a recorded request.
impl Clock for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }
}

/// The wall time of its creation, advanced by the processor's calibrated counter (or by the
/// system's monotonic clock if there is none). It never steps back, not even with the wall
/// clock.
///
/// ```
/// use tidegate::{Clock, SystemClock};
///
/// let clock = SystemClock::new();
/// let before = clock.now();
/// assert!(clock.now() >= before);
/// ```
#[derive(Clone, Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    /// The microseconds to add, wrapping, to the counter's microseconds.
    counter_to_wall_us: u64,
    /// Microseconds per tick of the counter, times 2^64.
    us_per_tick: u64,
}

impl SystemClock {
    /// Reads the wall clock once. The first in a process calibrates the counter, which may take a
    /// tenth of a second.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is where the time is read")]
    pub fn new() -> Self {
        const TICKS: u64 = 1 << 40;
        let counter = quanta::Clock::new();
        // Measured over many ticks, so that the rate has the precision of the calibration; a multiplication and a shift
        // are then all that a reading takes.
        let nanos = u128::from(counter.delta_as_nanos(0, TICKS));
        let us_per_tick =
            u64::try_from((nanos << 64) / (u128::from(TICKS) * 1_000)).unwrap_or(u64::MAX);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_us = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        let counter_us = micros(counter.raw(), us_per_tick);
        Self { counter, counter_to_wall_us: wall_us.wrapping_sub(counter_us), us_per_tick }
    }
}

/// Whole microseconds in `ticks`.
#[inline]
const fn micros(ticks: u64, us_per_tick: u64) -> u64 {
    ((ticks as u128 * us_per_tick as u128) >> 64) as u64
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let counter_us = micros(self.counter.raw(), self.us_per_tick);
        Timestamp::from_micros(counter_us.wrapping_add(self.counter_to_wall_us))
    }

    #[inline]
    fn never_steps_back(&self) -> bool {
        true
    }
}

impl Park for SystemClock {
    fn park_until(&self, at: Timestamp) {
        thread::park_timeout(Duration::from_micros(at.since(self.now()).as_micros()));
    }
}
