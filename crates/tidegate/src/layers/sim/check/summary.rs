//! The sum of all runs.

use std::ops::AddAssign;

use super::super::history::{CallerAnswer, DecidedBy, LayersEventKind, LayersHistory};

/// The events of all runs that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct LayersSummary {
    pub(in super::super) runs: u64,
    /// Units that callers were told of, by the decider.
    pub(in super::super) by_store: u64,
    pub(in super::super) by_lease: u64,
    pub(in super::super) here: u64,
    pub(in super::super) open: u64,
    pub(in super::super) refused: u64,
    pub(in super::super) denied_again: u64,
    pub(in super::super) undone: u64,
    pub(in super::super) gone: u64,
    pub(in super::super) settled: u64,
    pub(in super::super) more: u64,
    pub(in super::super) returned: u64,
    pub(in super::super) late: u64,
    pub(in super::super) lost: u64,
    pub(in super::super) crashed: u64,
    pub(in super::super) resets: u64,
    /// Units of limiters with leases or shares in runs that lose no node and no data, and the same without leases.
    pub(in super::super) admitted: u64,
    pub(in super::super) reference: u64,
}

impl AddAssign for LayersSummary {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.by_store += other.by_store;
        self.by_lease += other.by_lease;
        self.here += other.here;
        self.open += other.open;
        self.refused += other.refused;
        self.denied_again += other.denied_again;
        self.undone += other.undone;
        self.gone += other.gone;
        self.settled += other.settled;
        self.more += other.more;
        self.returned += other.returned;
        self.late += other.late;
        self.lost += other.lost;
        self.crashed += other.crashed;
        self.resets += other.resets;
        self.admitted += other.admitted;
        self.reference += other.reference;
    }
}

impl LayersSummary {
    pub(super) fn of(history: &LayersHistory) -> Self {
        let mut sum = Self { runs: 1, ..Self::default() };
        for event in &history.events {
            match event.what {
                LayersEventKind::Admitted { units, by, .. } => match by {
                    DecidedBy::Store => sum.by_store += units,
                    DecidedBy::Lease => sum.by_lease += units,
                    DecidedBy::Here { .. } => sum.here += units,
                    DecidedBy::Open => sum.open += units,
                },
                LayersEventKind::Undone { units, .. } => sum.undone += units,
                LayersEventKind::Gone { units, .. } => sum.gone += units,
                LayersEventKind::Settled { back, more, .. } => {
                    (sum.settled, sum.more) = (sum.settled + back, sum.more + more);
                }
                LayersEventKind::Returned { units, .. } => sum.returned += units,
                LayersEventKind::Reset => sum.resets += 1,
                LayersEventKind::Denied { is_repeated: true, .. } => sum.denied_again += 1,
                LayersEventKind::Taken { .. }
                | LayersEventKind::Granted { .. }
                | LayersEventKind::Back { .. }
                | LayersEventKind::Denied { .. } => {}
            }
        }
        sum.refused +=
            history.answers.values().filter(|one| **one == CallerAnswer::Refused).count() as u64;
        for account in &history.accounts {
            sum.late += account.late;
            sum.lost += account.lost;
            sum.crashed += u64::from(account.crashed);
        }
        sum
    }
}
