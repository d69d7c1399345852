//! A sliding log as numbers: the time of its last unit, then its entries.
//!
//! A gate in memory writes these numbers to a snapshot, from which another process goes on.

use alloc::vec::Vec;

use super::ring::{LogEntry, LogRing};
use super::{MOST_HELD, SlidingLog, State};
use crate::algorithm::Persist;
use crate::past::Past;
use crate::time::{Micros, Timestamp};

impl Persist for SlidingLog {
    /// For each entry, the time between its leaving and the previous entry's, and its units.
    fn persist(&self, state: &State, last: Timestamp, numbers: &mut Vec<u64>) {
        numbers.push(last.as_micros());
        let mut leaves = Timestamp::EPOCH;
        let mut through = 0;
        for entry in state.ring.entries() {
            let next = state.through(entry);
            numbers.extend([entry.leaves.since(leaves).as_micros(), next.saturating_sub(through)]);
            (leaves, through) = (entry.leaves, next);
        }
    }

    fn restore(&self, numbers: &[u64]) -> Option<State> {
        let (last, entries) = numbers.split_first()?;
        let (entries, rest) = entries.as_chunks();
        let mut ring = LogRing::for_entries(self.most_entries);
        let mut leaves = Timestamp::EPOCH;
        let mut total = 0_u64;
        for [later_us, units] in entries {
            leaves = leaves.plus(Micros::from_micros(*later_us));
            // All code relies on entries with units, and on totals
            // that do not wrap; these numbers are from a file.
            total = total.checked_add(*units).filter(|total| *units > 0 && *total <= MOST_HELD)?;
            ring.record(LogEntry { leaves, total });
        }
        let last = Timestamp::from_micros(*last);
        // No unit from before is given back to a restored state by its time, so it needs no past.
        rest.is_empty().then_some(State { ring, gone: 0, last, past: Past::NONE })
    }
}
