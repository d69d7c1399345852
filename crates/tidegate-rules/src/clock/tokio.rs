//! Clocks that tokio's timer wakes (feature `tokio`).
//!
//! A test of a program on tokio can pause and move it. Other programs use `SystemClock`, which is faster to read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_core::Timestamp;
use tokio::time::{Instant, sleep};

use super::{Clock, Sleep, SystemClock, Timer};

/// The wall time of its creation, advanced by tokio's clock. If a test pauses or advances tokio's
/// clock, this clock follows.
///
/// For use inside one runtime. [`SystemClock`] is faster to read, and otherwise equivalent.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, Limiter, Spec, TokioClock};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// let spec = Spec::new(AlgorithmKind::TokenBucket, 1_000, Duration::from_secs(1));
/// let limiter = Limiter::with_clock(spec, TokioClock::new())?;
/// let decision = limiter.acquire(10, Duration::from_millis(50)).await;
/// assert!(decision.is_allowed());
/// # Ok::<(), tidegate::RuleErrors>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    began: Instant,
    began_at: Timestamp,
}

impl TokioClock {
    /// Reads the wall clock once.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is where the time is read")]
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), began_at: at(Timestamp::EPOCH, wall) }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        at(self.began_at, self.began.elapsed())
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}

/// Works only inside a tokio runtime with an enabled timer.
///
/// # Panics
/// [`Timer::sleep_until`] panics outside of such a runtime, as tokio's own timer does.
impl Timer for TokioClock {
    fn sleep_until(&self, at: Timestamp) -> Sleep {
        sleep_by_tokio(self.now(), at)
    }
}

/// Works only inside a tokio runtime with an enabled timer.
///
/// # Panics
/// [`Timer::sleep_until`] panics outside of such a runtime, as tokio's own timer does.
impl Timer for SystemClock {
    fn sleep_until(&self, at: Timestamp) -> Sleep {
        sleep_by_tokio(self.now(), at)
    }
}

fn sleep_by_tokio(now: Timestamp, until: Timestamp) -> Sleep {
    Sleep::new(sleep(Duration::from_micros(until.since(now).as_micros())))
}

/// `passed` after `began`.
fn at(began: Timestamp, passed: Duration) -> Timestamp {
    let passed_us = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
    Timestamp::from_micros(began.as_micros().saturating_add(passed_us))
}
