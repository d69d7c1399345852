//! A clock that a test moves, and never back, so that states are packed; and the models next to it.
#![allow(unreachable_pub, dead_code, unused_imports, reason = "each test uses its part")]

#[path = "../words.rs"]
mod words;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use std::time::Duration;
use testkit::model::Expected;
pub use testkit::threads::{long, together};
use tidegate::{Clock, Park, Sleep, Timer, Timestamp};
pub use words::{expected as answered, spec_of};

/// A time of our days, on a whole hour.
pub const TODAY_US: u64 = 1_699_999_200_000_000;

/// A clock that is moved by hand, forward only; its copies are the same clock.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub fn at(us: u64) -> Self {
        Self(Arc::new(AtomicU64::new(us)))
    }

    /// Moves it on to a time; not back.
    pub fn set(&self, us: u64) {
        self.0.fetch_max(us, SeqCst);
    }

    pub fn pass(&self, us: u64) {
        self.0.fetch_add(us, SeqCst);
    }

    pub fn now_us(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_us())
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}

/// A clock that is put to any time.
#[derive(Clone, Debug)]
pub struct SteppingClock(pub Arc<AtomicU64>);

impl SteppingClock {
    pub fn at(us: u64) -> Self {
        Self(Arc::new(AtomicU64::new(us)))
    }

    pub fn set(&self, us: u64) {
        self.0.store(us, SeqCst);
    }
}

impl Clock for SteppingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(SeqCst))
    }
}

/// A clock that may step back as far as limiters know, so that they keep all states in shards.
#[derive(Clone, Debug)]
pub struct Unsteady<C>(pub C);

impl<C: Clock> Clock for Unsteady<C> {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl<C: Timer> Timer for Unsteady<C> {
    fn sleep_until(&self, at: Timestamp) -> Sleep {
        self.0.sleep_until(at)
    }
}

impl<C: Park> Park for Unsteady<C> {
    fn park_until(&self, at: Timestamp) {
        self.0.park_until(at);
    }
}
