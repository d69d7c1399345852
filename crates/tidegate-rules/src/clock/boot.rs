//! A clock that is never set, and that runs on while the machine sleeps.
//!
//! A process measures its leases by it, because the time of day may be set.

use tidegate_core::Micros;

/// Counts microseconds from any origin. On Linux that is `CLOCK_BOOTTIME`. Elsewhere it is the standard library's
/// monotonic clock, which some systems stop while the machine sleeps. There, a time limit on this clock may last longer
/// by the time of sleep.
#[derive(Clone, Debug)]
pub struct BootClock {
    #[cfg(not(target_os = "linux"))]
    origin: std::time::Instant,
}

impl Default for BootClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_os = "linux")]
impl BootClock {
    /// The clock of this machine.
    pub const fn new() -> Self {
        Self {}
    }

    /// The time since the machine started.
    pub fn now(&self) -> Micros {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let [seconds, nanos] =
            [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
        Micros::from_micros(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
    }
}

#[cfg(not(target_os = "linux"))]
impl BootClock {
    /// The clock of this machine.
    #[expect(clippy::disallowed_methods, reason = "this is where the time is read")]
    pub fn new() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    /// The time since the machine started.
    pub fn now(&self) -> Micros {
        self.origin.elapsed().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let clock = BootClock::new();
        let readings: Vec<_> = (0..1_000).map(|_| clock.now()).collect();
        assert!(readings.is_sorted());
    }
}
