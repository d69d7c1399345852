//! Counts of requests to the store, by outcome.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::SharedGate;
use crate::answer::Answer;
use crate::layers::Lost;
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

impl<S: Store> SharedGate<S> {
    /// Returns the counts of requests to the store, by outcome, and of the nodes that share it.
    ///
    /// ```no_run
    /// # fn example(gate: &tidegate::SharedGate) {
    /// let counts = gate.counts();
    /// println!("{} nodes, {} decisions without the store", counts.nodes, counts.degraded());
    /// # }
    /// ```
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        let undecided = &self.undecided;
        let in_force = self.newest();
        let leases = in_force.leases();
        let (leased, asked) = (leases.counts(), leases.calls());
        StoreCounts {
            nodes: self.local.share().nodes(),
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
            denied_again: undecided.denied_again.load(Relaxed),
            unavailable: undecided.unavailable.load(Relaxed),
            local: undecided.local.load(Relaxed),
            shed: undecided.shed.load(Relaxed),
            ..self.store.counts()
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
        let Undecided { unavailable, local, shed, .. } = &*self.undecided;
        let counter = match (answer.is_overloaded(), answer.is_unavailable()) {
            (false, _) => unavailable,
            (true, false) => local,
            (true, true) => shed,
        };
        counter.fetch_add(1, Relaxed);
    }
}
