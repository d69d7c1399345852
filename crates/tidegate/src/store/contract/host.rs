//! The process around a store: its clocks, its tasks, and how long a step may take.
//!
//! A store gives it to the layers over it, which have neither a clock nor a runtime of their own, so that a test
//! can give them virtual time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Micros, Timestamp};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

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
    /// Lets tasks stand still while a simulated machine sleeps.
    #[cfg(test)]
    pub(crate) sleep: Option<crate::layers::sim::MachineSleep>,
}

#[derive(Clone)]
enum Time {
    System(SystemClock, BootClock),
    /// The clock of the time of day, and a clock that is never set.
    Of(Arc<dyn Clock>, Arc<dyn Clock>),
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

    /// A process whose tasks run on this runtime.
    pub(crate) fn on(runtime: Handle, timeout: Duration) -> Self {
        let time = Time::System(SystemClock::new(), BootClock::new());
        Self {
            runtime,
            timeout,
            time,
            #[cfg(test)]
            sleep: None,
        }
    }

    /// Reads the time from this clock, in tests for example.
    #[must_use]
    pub fn with_clock(self, clock: impl Clock + 'static) -> Self {
        let clock = Arc::new(clock);
        // It stands for both clocks, so that a test advances only one.
        let same = Arc::clone(&clock);
        Self { time: Time::Of(clock, same), ..self }
    }

    /// Reads the time of day and the time since the machine was started from these clocks.
    #[cfg(test)]
    pub(crate) fn with_clocks(
        self,
        wall: impl Clock + 'static,
        boot: impl Clock + 'static,
    ) -> Self {
        Self { time: Time::Of(Arc::new(wall), Arc::new(boot)), ..self }
    }

    /// Returns how long a step may take, and so may any other question to the store.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns when a step that begins now must have ended.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Returns the time of a clock that is never set, and that runs on while the machine sleeps; since any origin.
    pub(crate) fn uptime(&self) -> Micros {
        match &self.time {
            Time::System(_, boot) => boot.now(),
            Time::Of(_, boot) => boot.now().since(Timestamp::EPOCH),
        }
    }

    /// Starts work that goes on when its caller has gone: units that are given back, leases that are taken.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        #[cfg(test)]
        if let Some(sleep) = &self.sleep {
            return self.runtime.spawn(sleep.clone().stand_still(work));
        }
        self.runtime.spawn(work)
    }
}

impl Clock for Host {
    fn now(&self) -> Timestamp {
        match &self.time {
            Time::System(clock, _) => clock.now(),
            Time::Of(clock, _) => clock.now(),
        }
    }

    fn never_steps_back(&self) -> bool {
        match &self.time {
            Time::System(clock, _) => clock.never_steps_back(),
            Time::Of(clock, _) => clock.never_steps_back(),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
