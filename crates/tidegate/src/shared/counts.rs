//! Counts of requests to the store, by outcome.

use std::sync::atomic::Ordering::Relaxed;

use super::SharedGate;
use crate::answer::Answer;
use crate::layers::Lost;
use crate::store::redis::{Counts, StoreCounts};

impl SharedGate {
    /// Returns the counts of requests to the store, by outcome.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        let counts = self.client().counts();
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
            denied_again: counts.denied_again.load(Relaxed),
            unavailable: counts.unavailable.load(Relaxed),
            local: counts.local.load(Relaxed),
            shed: counts.shed.load(Relaxed),
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

    /// Counts an answer of the store if a rule was open because the store has no memory.
    pub(super) fn counted<'g>(&self, answer: Answer<'g>) -> Answer<'g> {
        if answer.is_degraded() {
            self.count_degraded(&answer);
        }
        answer
    }

    /// Counts an answer that was decided without the store.
    pub(super) fn count_degraded(&self, answer: &Answer<'_>) {
        self.degraded.fetch_add(1, Relaxed);
        let counts = self.client().counts();
        let counter = match (answer.is_overloaded(), answer.is_unavailable()) {
            (false, _) => &counts.unavailable,
            (true, false) => &counts.local,
            (true, true) => &counts.shed,
        };
        Counts::add(counter, 1);
    }
}
