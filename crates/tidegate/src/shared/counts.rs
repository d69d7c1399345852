//! Counts of requests to the store, by outcome.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::SharedGate;
use crate::answer::Answer;
use crate::layers::Lost;
use crate::store::Store;
use crate::store::redis::StoreCounts;

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

impl SharedGate {
    /// Returns the counts of requests to the store, by outcome.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        let counts = self.store.client().counts();
        let undecided = &self.undecided;
        let in_force = self.newest();
        let leases = in_force.leases();
        let (leased, asked) = (leases.counts(), leases.calls());
        StoreCounts {
            leased: leased.taken + asked.units_late.load(Relaxed),
            leased_spent: leased.spent,
            leased_returned: asked.returned.load(Relaxed),
            leased_expired: asked.all_lost(),
            leased_too_late: asked.lost(Lost::TooLate),
            leased_changed: asked.lost(Lost::Changed),
            leased_unrecorded: asked.lost(Lost::NotTaken),
            leased_unanswered: asked.lost(Lost::NoReply),
            leases_granted: asked.granted.load(Relaxed),
            leases_refused: asked.refused.load(Relaxed),
            leases_late: asked.late.load(Relaxed),
            leases_unanswered: asked.unanswered.load(Relaxed),
            shares_renewed: asked.renewed.load(Relaxed),
            under_way: counts.under_way.load(Relaxed),
            merged: counts.merged.load(Relaxed),
            denied_again: undecided.denied_again.load(Relaxed),
            unavailable: undecided.unavailable.load(Relaxed),
            local: undecided.local.load(Relaxed),
            shed: undecided.shed.load(Relaxed),
            late: counts.late.load(Relaxed),
            undone: counts.undone.load(Relaxed),
            undone_units: counts.undone_units.load(Relaxed),
            not_undone_units: counts.not_undone_units.load(Relaxed),
            late_units_admitted: counts.late_units_admitted.load(Relaxed),
            unanswered_units: counts.unanswered_units.load(Relaxed),
            failed: counts.failed.load(Relaxed),
            calls: counts.calls.read(),
        }
    }
}

impl<S: Store> SharedGate<S> {
    /// Returns how many requests were decided without the store so far.
    #[must_use]
    pub fn degraded(&self) -> u64 {
        let Undecided { unavailable, local, shed, .. } = &*self.undecided;
        [unavailable, local, shed].map(|count| count.load(Relaxed)).iter().sum()
    }

    /// Counts an answer of the store if a rule was open because the store has no memory.
    pub(super) fn counted<'g>(&self, answer: Answer<'g>) -> Answer<'g> {
        if answer.is_degraded() {
            self.count_degraded(&answer);
        }
        answer
    }

    /// Counts an answer that was decided without the store.
    pub(super) fn count_degraded(&self, answer: &Answer<'_>) {
        let Undecided { unavailable, local, shed, .. } = &*self.undecided;
        let counter = match (answer.is_overloaded(), answer.is_unavailable()) {
            (false, _) => unavailable,
            (true, false) => local,
            (true, true) => shed,
        };
        counter.fetch_add(1, Relaxed);
    }
}
