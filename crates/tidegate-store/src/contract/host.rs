//! The process around a store: its clocks, its tasks, and how long a step may take.
//!
//! A store gives it to the layers over it, which have neither a clock nor a runtime of their own, so that a test
//! can give them virtual time.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{Micros, Timestamp};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::clock::{BootClock, Clock, SystemClock};

/// The process around a store: its clocks, its tasks, and how long a step may take.
///
/// [`Store::host`](super::Store::host) returns it. The layers over the store read no other clock, and start no
/// task elsewhere. A clone is the same process.
#[derive(Clone)]
pub struct Host {
    runtime: Handle,
    timeout: Duration,
    time: Time,
    /// Says until when its tasks stand still. Only a simulator sets it.
    stands_still: Option<StandsStill>,
}

/// Returns until when tasks stand still; `None` if they run.
type StandsStill = Arc<dyn Fn() -> Option<Instant> + Send + Sync>;

#[derive(Clone)]
enum Time {
    System(SystemClock, BootClock),
    Of(Arc<dyn Clock>),
}

impl Host {
    /// A process whose steps take at most `timeout`. Its tasks run on the current runtime of tokio, which must have its
    /// timer enabled.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self::on(Handle::current(), timeout)
    }

    /// Reads the time from this clock, in tests for example.
    #[must_use]
    pub fn with_clock(self, clock: impl Clock + 'static) -> Self {
        // It stands for both clocks, so that a test advances only one.
        Self { time: Time::Of(Arc::new(clock)), ..self }
    }

    /// Returns how long a step may take, and so may any other question to the store.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }
}

#[doc(hidden)]
impl Host {
    /// A process whose tasks run on this runtime.
    pub fn on(runtime: Handle, timeout: Duration) -> Self {
        let time = Time::System(SystemClock::new(), BootClock::new());
        Self { runtime, timeout, time, stands_still: None }
    }

    /// Lets its tasks stand still, as on a simulated machine that sleeps.
    pub fn standing_still(
        self,
        until: impl Fn() -> Option<Instant> + Send + Sync + 'static,
    ) -> Self {
        Self { stands_still: Some(Arc::new(until)), ..self }
    }

    /// Returns when a step that begins now must have ended.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Returns the time of a clock that is never set, and that runs on while the machine sleeps; since any origin.
    pub fn uptime(&self) -> Micros {
        match &self.time {
            Time::System(_, boot) => boot.now(),
            Time::Of(clock) => clock.now().since(Timestamp::EPOCH),
        }
    }

    /// Starts work that goes on when its caller has gone: units that are given back, leases that are taken.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        match self.stands_still.clone() {
            None => self.runtime.spawn(work),
            Some(until) => self.runtime.spawn(stand_still(move || until(), work)),
        }
    }
}

impl Clock for Host {
    fn now(&self) -> Timestamp {
        match &self.time {
            Time::System(clock, _) => clock.now(),
            Time::Of(clock) => clock.now(),
        }
    }

    fn never_steps_back(&self) -> bool {
        match &self.time {
            Time::System(clock, _) => clock.never_steps_back(),
            Time::Of(clock) => clock.never_steps_back(),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Runs work that stands still while `until` returns a later time.
pub async fn stand_still<T>(
    until: impl Fn() -> Option<Instant>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    let mut timer = None;
    poll_fn(|context| {
        if let Some(until) = until().filter(|until| *until > Instant::now()) {
            // Set with each poll: another sleep may have begun, which ends later.
            let timer = timer.insert(Box::pin(sleep_until(until)));
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        work.as_mut().poll(context)
    })
    .await
}
