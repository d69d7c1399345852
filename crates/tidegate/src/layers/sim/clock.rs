//! The clocks of a node, and its sleep. All clocks run a little too fast or too slow.
//!
//! A node's host reads them, and runs all of its tasks through the sleep.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::Micros;
use tokio::time::Instant;

use super::world::locked;
use crate::store::{Host, stand_still};

/// Three clocks of one machine. Leases use the first.
#[derive(Clone, Debug)]
pub(super) struct MachineClocks {
    origin: u64,
    drift_ppm: i64,
    slept: u64,
    stepped: i64,
}

impl MachineClocks {
    pub(super) const fn new(origin: u64, drift_ppm: i64) -> Self {
        Self { origin, drift_ppm, slept: 0, stepped: 0 }
    }

    /// Runs on while the machine sleeps, and is never set.
    pub(super) fn boot(&self, time: u64) -> Micros {
        Micros::from_micros(self.origin + self.elapsed(time))
    }

    /// Stands still while the machine sleeps.
    pub(super) fn awake(&self, time: u64) -> Micros {
        Micros::from_micros(self.origin + self.elapsed(time.saturating_sub(self.slept)))
    }

    /// Is set now and then.
    pub(super) fn wall(&self, time: u64) -> Micros {
        Micros::from_micros((self.origin + self.elapsed(time)).saturating_add_signed(self.stepped))
    }

    pub(super) const fn sleep(&mut self, time: u64) {
        self.slept += time;
    }

    pub(super) const fn step(&mut self, by: i64) {
        self.stepped += by;
    }

    fn elapsed(&self, time: u64) -> u64 {
        let rate = 1_000_000_u64.saturating_add_signed(self.drift_ppm);
        u64::try_from(u128::from(time) * u128::from(rate) / 1_000_000).unwrap_or(u64::MAX)
    }
}

/// The timers of a machine that slept are late by this time.
const LATE: Duration = Duration::from_millis(30);

/// The sleep of a machine: its tasks stand still, and messages on their way go on.
#[derive(Clone, Debug, Default)]
pub(super) struct MachineSleep(Arc<Mutex<Option<Instant>>>);

impl MachineSleep {
    pub(super) fn sleep(&self, time: Duration) {
        *locked(&self.0) = Some(Instant::now() + time);
    }

    /// Returns until when the tasks of the machine stand still: `late` after the end of a sleep.
    fn until(&self, late: Duration) -> Option<Instant> {
        locked(&self.0).map(|until| until + late)
    }

    /// Lets the tasks of a host stand still, which go on a while after a sleep.
    pub(super) fn of_host(&self, host: Host) -> Host {
        let sleep = self.clone();
        host.standing_still(move || sleep.until(LATE))
    }

    /// Runs work of a machine, which goes on a while after a sleep.
    pub(super) async fn stand_still<T>(self, work: impl Future<Output = T>) -> T {
        self.stand_still_for(LATE, work).await
    }

    /// Runs work of a machine, which goes on so long after a sleep.
    pub(super) async fn stand_still_for<T>(
        self,
        late: Duration,
        work: impl Future<Output = T>,
    ) -> T {
        stand_still(|| self.until(late), work).await
    }
}

#[test]
fn only_the_clock_of_leases_runs_on_and_is_never_set() {
    let mut clock = MachineClocks::new(1_000, 500);
    clock.sleep(1_000_000);
    clock.step(-7);
    assert_eq!(clock.boot(2_000_000).as_micros(), 2_002_000);
    assert_eq!(clock.awake(2_000_000).as_micros(), 1_001_500);
    assert_eq!(clock.wall(2_000_000).as_micros(), 2_001_993);
}
