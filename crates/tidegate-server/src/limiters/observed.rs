//! Reads the counts of the limiters and the observers of their decisions, for metrics, statistics and operators.

use tidegate::{GateCounts, Recorder};

use super::reports::{CallerReport, Unreported};
use super::top_keys::TopKeys;
use super::{Limiters, ServerStore, StoreStanding};

impl Limiters {
    /// Counts frequent keys, up to `capacity` at a time; none if it is 0.
    pub(crate) fn with_top_keys(self, capacity: usize) -> Self {
        if capacity > 0 {
            self.watching.top_keys.get_or_init(|| TopKeys::new(capacity));
        }
        self
    }

    /// Records requests, if there is a recorder.
    pub(crate) fn with_recorder(self, recorder: Option<Recorder>) -> Self {
        if let Some(recorder) = recorder {
            self.watching.recorder.get_or_init(|| recorder);
        }
        self
    }

    /// Counts what callers report, all or nothing.
    pub(crate) fn report(&self, reports: Vec<CallerReport>) -> Result<(), Unreported> {
        self.reports.count(reports, &self.policy(), &self.watching.statistics)
    }

    /// The limiters of each rule, if they are in this process.
    pub(crate) fn kept(&self) -> Option<GateCounts> {
        match &self.store {
            ServerStore::Memory(gate) => Some(gate.counts()),
            ServerStore::Shared(..) => None,
        }
    }

    /// The standing of the store, if there is one.
    pub(crate) fn standing(&self) -> Option<StoreStanding> {
        match &self.store {
            ServerStore::Memory(_) => None,
            ServerStore::Shared(_, events) => Some(events.standing()),
        }
    }
}
