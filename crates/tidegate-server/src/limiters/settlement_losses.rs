//! Units of reservations that were settled and did not come back, or were not taken: counted by cause, and a line of
//! the log a minute for units that are cut off. `reserve.rs` notes each settlement, and metrics read the counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::{Answer, Matched, Request, SystemClock};

use crate::once_a_minute::OnceAMinute;

/// Units that settlements lost.
#[derive(Debug)]
pub(crate) struct SettlementLosses {
    /// Units to be given back that counted no more, or whose rule is gone; and refunds to rules with leases.
    too_late: AtomicU64,
    /// Units that were not taken, because the debt would be too large or the rule is gone.
    debt_cut: AtomicU64,
    /// Units of settlements that the store was asked for and did not answer.
    unknown: AtomicU64,
    /// For the warnings of units that were cut off.
    often: OnceAMinute,
    /// For the warnings of units of rules that are gone, so that neither kind hides the other.
    often_gone: OnceAMinute,
}

impl Default for SettlementLosses {
    fn default() -> Self {
        let [too_late, debt_cut, unknown] = [(); 3].map(|()| AtomicU64::new(0));
        let [often, often_gone] = [(); 2].map(|()| OnceAMinute::new());
        Self { too_late, debt_cut, unknown, often, often_gone }
    }
}

impl SettlementLosses {
    /// Counts the units that a settlement lost.
    pub(super) fn note(&self, answer: &Answer<'_>) {
        // Limiters that took units, and that no rule in force leads to any more.
        let unreached = answer.unreached().iter().map(|one| (one.settled(), None));
        let enforced = answer.enforced().map(|one| (one.settled(), Some(one)));
        for (settled, of_rule) in unreached.chain(enforced) {
            self.too_late.fetch_add(settled.late_units(), Relaxed);
            let cut = settled.cut_units();
            if cut > 0 {
                self.debt_cut.fetch_add(cut, Relaxed);
                match of_rule {
                    Some(one) => self.warn(&one, cut),
                    None => self.warn_of_gone(cut),
                }
            }
        }
    }

    /// Counts the units of a settlement that the store was asked for and did not reply to: for each descriptor those that
    /// had to come back, or to be taken.
    pub(super) fn note_unknown(&self, request: &Request<'_>, actual: &[u64]) {
        // A single cost holds for every descriptor.
        let last = actual.last().copied().unwrap_or_default();
        let each = actual.iter().copied().chain(std::iter::repeat(last));
        let units = request.descriptors().iter().zip(each);
        let units: u64 = units.map(|(one, actual)| one.units().abs_diff(actual)).sum();
        self.unknown.fetch_add(units, Relaxed);
    }

    /// Counts the units that a reservation of cost 0 was settled for. It holds nothing, so nothing is taken. The server
    /// does not remember whether it was settled before, so a repeated settle counts again.
    #[cold]
    pub(super) fn note_nothing(&self, cut: u64) {
        if cut == 0 {
            return;
        }
        self.debt_cut.fetch_add(cut, Relaxed);
        let Some(withheld) = self.often.passes(&SystemClock::new()) else { return };
        tracing::warn!(
            cut,
            withheld,
            "a reservation of cost 0 was settled for more: none of it is taken, because such a reservation holds \
             nothing; reserve at least one unit"
        );
    }

    #[cold]
    fn warn_of_gone(&self, cut: u64) {
        let Some(withheld) = self.often_gone.passes(&SystemClock::new()) else { return };
        tracing::warn!(
            cut,
            withheld,
            "a reservation was settled for more than it took of a rule that is gone: the units above are not taken"
        );
    }

    #[cold]
    fn warn(&self, one: &Matched<'_>, cut: u64) {
        let Some(withheld) = self.often.passes(&SystemClock::new()) else { return };
        tracing::warn!(
            rule = one.rule().name(),
            cut,
            withheld,
            "a reservation was settled for more than the limit and `max_debt` allow: the units above are not taken"
        );
    }

    /// The units that were lost, by cause.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 3] {
        let counts = [
            ("too_late", &self.too_late),
            ("debt_cut", &self.debt_cut),
            ("unknown", &self.unknown),
        ];
        counts.map(|(cause, units)| (cause, units.load(Relaxed)))
    }
}
