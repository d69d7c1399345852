//! The surplus of reservations, by when it was taken.

use std::collections::BTreeMap;

use super::super::history::{Event, Source, What};

/// The units that were taken and not needed, by their source. Spent units of a lease have a time as well.
pub(super) struct Surplus(BTreeMap<(Source, u64), u64>);

impl Surplus {
    pub(super) fn of(events: &[&Event]) -> Self {
        let mut all = BTreeMap::new();
        for event in events {
            if let What::Unused { of, at, units } = event.what {
                *all.entry((of, at)).or_default() += units;
            }
        }
        Self(all)
    }

    /// Returns how many of the units of an event were not needed.
    pub(super) fn take(&mut self, event: &Event) -> u64 {
        let (of, units) = match event.what {
            What::Taken { by: Some(by), units } => ((Source::Request(by), 0), units),
            What::Spent { id, units, .. } => ((Source::Lease(id), event.time), units),
            _ => return 0,
        };
        let Some(left) = self.0.get_mut(&of) else { return 0 };
        let surplus = units.min(*left);
        *left -= surplus;
        surplus
    }
}
