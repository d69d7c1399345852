//! The surplus of reservations, by when it was taken.

use std::collections::BTreeMap;

use super::super::history::{LeasesEvent, LeasesEventKind, TakenFor};

/// The units that were taken and not needed, by their source. Spent units of a lease have a time as well.
pub(super) struct UnusedUnits(BTreeMap<(TakenFor, u64), u64>);

impl UnusedUnits {
    pub(super) fn of(events: &[&LeasesEvent]) -> Self {
        let mut all = BTreeMap::new();
        for event in events {
            if let LeasesEventKind::Unused { of, at, units } = event.what {
                *all.entry((of, at)).or_default() += units;
            }
        }
        Self(all)
    }

    /// Returns how many of the units of an event were not needed.
    pub(super) fn take(&mut self, event: &LeasesEvent) -> u64 {
        let (of, units) = match event.what {
            LeasesEventKind::Taken { by: Some(by), units } => ((TakenFor::Request(by), 0), units),
            LeasesEventKind::Spent { id, units, .. } => ((TakenFor::Lease(id), event.time), units),
            _ => return 0,
        };
        let Some(left) = self.0.get_mut(&of) else { return 0 };
        let surplus = units.min(*left);
        *left -= surplus;
        surplus
    }
}
