//! The reservations by their ids, and in the order in which they end.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tidegate::Timestamp;

use super::asked::Asked;
use super::{Id, Open, Settling};

/// The most reservations that have ended and are dropped in one call.
const DROPPED_AT_ONCE: usize = 64;

#[derive(Clone, Debug)]
pub(super) enum Entry {
    Open(Arc<Open>),
    Settled(Arc<Settling>),
}

impl Entry {
    /// The bytes of any reservation beside its request: its places in the lists, and how it is settled.
    pub(super) const BYTES: usize = 512;
}

#[derive(Debug)]
struct Kept {
    entry: Entry,
    ends: Timestamp,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    by_id: HashMap<Id, Kept>,
    /// The reservations of requests with an id.
    by_request: HashMap<Arc<Asked>, Id>,
    ends: BTreeSet<(Timestamp, Id)>,
    pub(super) bytes: usize,
    counts: Counts,
    /// Renewals that were too late since one was in time.
    late_in_a_row: u64,
}

/// The number of renewals in a row that are too late and are reported.
const MANY_LATE: u64 = 8;

/// The numbers of reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Those that are neither settled nor ended.
    pub(crate) open: u64,
    /// Those that were settled so far.
    pub(crate) settled: u64,
    /// Those that ended so far and nobody had settled.
    pub(crate) unsettled: u64,
    /// Renewals so far by which all permits of a reservation last longer.
    pub(crate) renewed: u64,
    /// Renewals that came after a permit had ended.
    pub(crate) late: u64,
}

impl Table {
    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn get(&self, id: Id, now: Timestamp) -> Option<Entry> {
        self.by_id.get(&id).filter(|kept| now < kept.ends).map(|kept| kept.entry.clone())
    }

    pub(super) fn of_request(&self, asked: &Asked) -> Option<Id> {
        self.by_request.get(asked).copied()
    }

    /// Adds a reservation whose `bytes` are counted already.
    pub(super) fn insert(&mut self, id: Id, open: Arc<Open>, bytes: usize, ends: Timestamp) {
        if open.asked.has_id() {
            self.by_request.insert(Arc::clone(&open.asked), id);
        }
        self.ends.insert((ends, id));
        self.counts.open += 1;
        self.by_id.insert(id, Kept { entry: Entry::Open(open), ends, bytes });
    }

    /// Remembers how a reservation was settled until `ends`; of its request nothing is kept.
    pub(super) fn settled(&mut self, id: Id, outcome: &Arc<Settling>, ends: Timestamp) {
        if !matches!(self.by_id.get(&id), Some(Kept { entry: Entry::Open(_), .. })) {
            return;
        }
        self.remove(id);
        self.counts.settled += 1;
        let bytes = Entry::BYTES;
        self.bytes += bytes;
        self.ends.insert((ends, id));
        self.by_id.insert(id, Kept { entry: Entry::Settled(Arc::clone(outcome)), ends, bytes });
    }

    /// Makes an open reservation end later.
    pub(super) fn extend(&mut self, id: Id, ends: Timestamp) {
        if let Some(kept) = self.by_id.get_mut(&id)
            && matches!(kept.entry, Entry::Open(_))
            && kept.ends < ends
        {
            self.ends.remove(&(kept.ends, id));
            self.ends.insert((ends, id));
            kept.ends = ends;
        }
    }

    /// Counts a renewal; returns whether it is the last of many that were too late, or the first in time after them.
    pub(super) const fn renewed(&mut self, in_time: bool) -> bool {
        if in_time {
            self.counts.renewed += 1;
            let were_many = self.late_in_a_row >= MANY_LATE;
            self.late_in_a_row = 0;
            were_many
        } else {
            self.counts.late += 1;
            self.late_in_a_row += 1;
            self.late_in_a_row == MANY_LATE
        }
    }

    /// Drops some of the reservations that have ended, more than one call adds.
    pub(super) fn drop_ended(&mut self, now: Timestamp) {
        for _ in 0..DROPPED_AT_ONCE {
            match self.ends.first() {
                Some((ends, id)) if *ends <= now => {
                    let (id, open) = (*id, self.counts.open);
                    self.remove(id);
                    self.counts.unsettled += open - self.counts.open;
                }
                _ => return,
            }
        }
    }

    fn remove(&mut self, id: Id) {
        let Some(Kept { entry, ends, bytes }) = self.by_id.remove(&id) else { return };
        self.ends.remove(&(ends, id));
        self.bytes -= bytes;
        let Entry::Open(open) = entry else { return };
        self.counts.open -= 1;
        // A later request under the same id has another reservation.
        if self.by_request.get(&open.asked) == Some(&id) {
            self.by_request.remove(&open.asked);
        }
    }
}
