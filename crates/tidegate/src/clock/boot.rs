//! A clock that is never set, and that runs on while the machine sleeps.
//!
//! A process measures its leases by it, because the time of day may be set.

use tidegate_core::Micros;

/// Counts microseconds from any origin. On Linux that is `CLOCK_BOOTTIME`. Elsewhere it is the standard library's
/// monotonic clock, which some systems stop while the machine sleeps. There, a time limit on this clock may last longer
/// by the time of sleep.
#[derive(Clone, Debug)]
pub(crate) struct BootClock {
    #[cfg(not(target_os = "linux"))]
    origin: std::time::Instant,
}

#[cfg(target_os = "linux")]
impl BootClock {
    pub(crate) const fn new() -> Self {
        Self {}
    }

    #[expect(clippy::unused_self, reason = "other systems need an origin")]
    pub(crate) fn now(&self) -> Micros {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let [seconds, nanos] =
            [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
        Micros::from_micros(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
    }
}

#[cfg(not(target_os = "linux"))]
impl BootClock {
    #[expect(clippy::disallowed_methods, reason = "this is where the time is read")]
    pub(crate) fn new() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    pub(crate) fn now(&self) -> Micros {
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
