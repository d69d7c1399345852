//! A clock that is moved by hand, and may step back: states are kept in shards.

use tidegate::{Clock, ManualClock, Park, Sleep, Timer, Timestamp};

/// A [`ManualClock`] that may step back.
#[derive(Clone, Debug)]
pub(crate) struct Unsteady(pub(crate) ManualClock);

impl Clock for Unsteady {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl Timer for Unsteady {
    fn sleep_until(&self, at: Timestamp) -> Sleep {
        self.0.sleep_until(at)
    }
}

impl Park for Unsteady {
    fn park_until(&self, at: Timestamp) {
        self.0.park_until(at);
    }
}
