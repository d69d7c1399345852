//! Reads the counts of the limiters and the observers of their decisions, for metrics, statistics and operators.

use std::sync::Arc;

use tidegate::{GateCounts, Recorder, RuleStatistics};

use super::reports::{CallerReport, CallerReports, Unreported};
use super::tail::Tail;
use super::top_keys::TopKeys;
use super::{Limiters, ServerStore, StoreStanding};
use crate::counts::ServerCounts;

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

    /// The recorder, if requests are recorded.
    pub(crate) fn recorder(&self) -> Option<&Recorder> {
        self.watching.recorder.get()
    }

    /// The number of requests that no rule matched, by what became of them.
    pub(crate) fn unmatched(&self) -> [(&'static str, u64); 2] {
        self.watching.unmatched.counts()
    }

    /// The decisions of each rule.
    pub(crate) fn statistics(&self) -> &RuleStatistics {
        &self.watching.statistics
    }

    /// The reports of callers.
    pub(crate) const fn reports(&self) -> &CallerReports {
        &self.reports
    }

    /// Counts what callers report, all or nothing.
    pub(crate) fn report(&self, reports: Vec<CallerReport>) -> Result<(), Unreported> {
        self.reports.count(reports, &self.policy(), &self.watching.statistics)
    }

    /// Decisions as they are taken.
    pub(crate) fn tail(&self) -> &Arc<Tail> {
        &self.watching.tail
    }

    /// The most frequent keys, if they are counted.
    pub(crate) fn top_keys(&self) -> Option<&TopKeys> {
        self.watching.top_keys.get()
    }

    /// The counts of the listeners.
    pub(crate) const fn counts(&self) -> &ServerCounts {
        &self.counts
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
