//! Counts of requests to the store, by outcome.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::answer::Answer;
use crate::layers::{Leases, Lost};
use crate::store::{Store, StoreCounts};

/// Requests that were not decided by a step in the store.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    /// Requests that were refused without asking the store, because it had just denied them.
    pub(super) denied_again: AtomicU64,
    /// Requests that were decided without the store because it was unavailable.
    unavailable: AtomicU64,
    /// Requests that were decided in process because of overload.
    local: AtomicU64,
    /// Requests that were refused because of overload.
    shed: AtomicU64,
}

impl Undecided {
    /// Counts an answer that was decided without the store.
    pub(super) fn count(&self, answer: &Answer<'_>) {
        let counter = match (answer.is_overloaded(), answer.is_unavailable()) {
            (false, _) => &self.unavailable,
            (true, false) => &self.local,
            (true, true) => &self.shed,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Adds these counts and the counts of leases to the counts of the store.
    pub(super) fn read<S: Store>(
        &self,
        leases: &Leases<S>,
        mut counts: StoreCounts,
    ) -> StoreCounts {
        let leased = leases.counts();
        let asked = leases.calls();
        counts.leased = leased.taken + asked.units_late.load(Relaxed);
        counts.leased_spent = leased.spent;
        counts.leased_returned = asked.returned.load(Relaxed);
        counts.leased_expired = asked.all_lost();
        counts.leased_too_late = asked.lost(Lost::TooLate);
        counts.leased_changed = asked.lost(Lost::Changed);
        counts.leased_unrecorded = asked.lost(Lost::NotTaken);
        counts.leased_unanswered = asked.lost(Lost::NoReply);
        counts.leases_granted = asked.granted.load(Relaxed);
        counts.leases_refused = asked.refused.load(Relaxed);
        counts.leases_late = asked.late.load(Relaxed);
        counts.leases_unanswered = asked.unanswered.load(Relaxed);
        counts.shares_renewed = asked.renewed.load(Relaxed);
        counts.denied_again = self.denied_again.load(Relaxed);
        counts.unavailable = self.unavailable.load(Relaxed);
        counts.local = self.local.load(Relaxed);
        counts.shed = self.shed.load(Relaxed);
        counts
    }
}
