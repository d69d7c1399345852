//! The table within the lock of [`Reservations`](super::Reservations): reservations by their ids, and in the order in
//! which they end, with the bytes of all.
//!
//! Trees give back the memory of dropped reservations, and never hold two copies of themselves while they grow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate::Timestamp;

use super::{OpenReservation, ReservationEnd, ReservationId};

/// The most reservations that have ended and are dropped in one call.
const DROPPED_AT_ONCE: usize = 64;

/// The identity of the request of a reservation: the fingerprint of its id and all else.
pub(super) type RequestPrint = u128;

/// The bytes of an allocation, with the allocator's overhead.
pub(super) const fn allocated(bytes: usize) -> usize {
    (bytes + bytes / 8).next_multiple_of(16)
}

/// The units of costs in all.
pub(super) fn units_of(costs: &[u64]) -> u64 {
    costs.iter().fold(0, |all, units| all.saturating_add(*units))
}

/// The bytes of an entry of a tree: its nodes are at least half full.
const fn in_tree<K, V>() -> usize {
    let entry = size_of::<K>() + size_of::<V>();
    entry * 9 / 4 + 8
}

/// The bytes of any reservation: its places by its id and by its end.
pub(super) const OF_ANY: usize =
    in_tree::<ReservationId, KeptReservation>() + in_tree::<(Timestamp, ReservationId), ()>();
/// The bytes of a place by the request.
pub(super) const OF_A_REQUEST: usize = in_tree::<RequestPrint, ReservationId>();

/// The bytes of costs that are settled later.
const fn of_pending(costs: usize) -> usize {
    in_tree::<ReservationId, Box<[u64]>>() + allocated(costs * size_of::<u64>())
}

/// A reservation, before or after its settle.
#[derive(Clone, Debug)]
pub(super) enum TableEntry {
    Open(Arc<OpenReservation>),
    Settled(Arc<ReservationEnd>),
}

impl TableEntry {
    fn bytes(&self) -> usize {
        match self {
            Self::Open(open) => open.bytes,
            Self::Settled(outcome) => outcome.bytes(),
        }
    }
}

/// An entry, and the time until which it is known.
#[derive(Debug)]
struct KeptReservation {
    entry: TableEntry,
    ends: Timestamp,
}

/// Each reservation is in `by_id`, and in `open` or `settled` under its end.
#[derive(Debug, Default)]
pub(super) struct ReservationTable {
    by_id: BTreeMap<ReservationId, KeptReservation>,
    /// The reservations of requests with an id.
    by_request: BTreeMap<RequestPrint, ReservationId>,
    /// The ends of reservations that are open.
    open: BTreeSet<(Timestamp, ReservationId)>,
    /// The ends of the memory of settled ones.
    settled: BTreeSet<(Timestamp, ReservationId)>,
    /// The costs that open reservations are settled for as soon as the store answers.
    pending: BTreeMap<ReservationId, Box<[u64]>>,
    /// True if a task is settling them.
    is_retrying: bool,
    bytes: usize,
    counts: ReservationCounts,
    /// Renewals that were too late since one was in time.
    late_in_a_row: u64,
}

/// The first of reservations, if it has ended.
fn first_ended(
    ends: &BTreeSet<(Timestamp, ReservationId)>,
    now: Timestamp,
) -> Option<ReservationId> {
    ends.first().filter(|(ends, _)| *ends <= now).map(|(_, id)| *id)
}

/// The number of renewals in a row that are too late and are reported.
const MANY_LATE: u64 = 8;

/// The numbers of reservations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReservationCounts {
    /// Those that are neither settled nor ended.
    pub(crate) open: u64,
    /// Open reservations whose settle waits for the store.
    pub(crate) pending: u64,
    /// Those that were settled so far.
    pub(crate) settled: u64,
    /// Reservations for which the store did not confirm a settle.
    pub(crate) unknown: u64,
    /// Reservations that ended without a settle so far.
    pub(crate) unsettled: u64,
    /// Those that ended so far while their settle waited for the store.
    pub(crate) given_up: u64,
    /// Reservations that ended so far in this process alone: any server may have settled their records in the store.
    pub(crate) left: u64,
    /// Those that operators dropped so far.
    pub(crate) dropped: u64,
    /// Renewals so far that extended all permits of a reservation.
    pub(crate) renewed: u64,
    /// Renewals that came after a permit had ended.
    pub(crate) late: u64,
}

/// The result of an attempt to make a settle wait for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettleWaits {
    /// Until the reservation ends; `true` if no caller settles such reservations yet.
    Until(Timestamp, bool),
    /// Another settle, for other costs of so many units in all, does already.
    Otherwise(u64),
    /// There is no room to remember it.
    Full,
    /// The reservation is not open any more.
    Closed,
}

impl ReservationTable {
    pub(super) fn counts(&self) -> ReservationCounts {
        ReservationCounts { pending: self.pending.len() as u64, ..self.counts }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Claims `bytes` of at most `most`; settled reservations are forgotten where there is no room, the oldest first.
    /// Returns whether there is room.
    pub(super) fn claim(&mut self, bytes: usize, most: usize) -> bool {
        // Settled reservations only answer repeated settles; an open reservation holds units and is never dropped for
        // space.
        while self.bytes + bytes > most {
            let Some((_, id)) = self.settled.first().copied() else { return false };
            self.remove(id);
        }
        self.bytes += bytes;
        true
    }

    /// Gives up bytes that were claimed.
    pub(super) const fn unclaim(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(super) fn get(&self, id: ReservationId, now: Timestamp) -> Option<TableEntry> {
        self.by_id.get(&id).filter(|kept| now < kept.ends).map(|kept| kept.entry.clone())
    }

    /// The costs for which a reservation is settled as soon as the store answers.
    pub(super) fn pending(&self, id: ReservationId) -> Option<&[u64]> {
        self.pending.get(&id).map(|costs| &**costs)
    }

    pub(super) fn of_request(&self, print: RequestPrint) -> Option<ReservationId> {
        self.by_request.get(&print).copied()
    }

    /// The open reservations that end first, with their ends.
    pub(super) fn first_to_end(
        &self,
        most: usize,
    ) -> Vec<(ReservationId, Timestamp, Arc<OpenReservation>, bool)> {
        let all = self.open.iter().filter_map(|(ends, id)| match &self.by_id.get(id)?.entry {
            TableEntry::Open(open) => {
                Some((*id, *ends, Arc::clone(open), self.pending.contains_key(id)))
            }
            TableEntry::Settled(_) => None,
        });
        all.take(most).collect()
    }

    /// Adds a reservation, for which `claimed` bytes were claimed.
    pub(super) fn insert(
        &mut self,
        id: ReservationId,
        open: Arc<OpenReservation>,
        claimed: usize,
        ends: Timestamp,
    ) {
        // The claim was an estimate of the bytes before the limiters had decided.
        self.unclaim(claimed);
        self.bytes += open.bytes;
        if let Some(print) = open.print {
            self.by_request.insert(print, id);
        }
        self.open.insert((ends, id));
        self.counts.open += 1;
        self.by_id.insert(id, KeptReservation { entry: TableEntry::Open(open), ends });
    }

    /// Remembers how a reservation was settled until `ends`; of its request nothing is kept.
    pub(super) fn settled(
        &mut self,
        id: ReservationId,
        outcome: &Arc<ReservationEnd>,
        ends: Timestamp,
    ) {
        // It may have ended, or have been dropped, while the store was asked.
        if !self.is_open(id) {
            return;
        }
        self.remove(id);
        match outcome.stand {
            Ok(_) => self.counts.settled += 1,
            Err(_) => self.counts.unknown += 1,
        }
        self.bytes += outcome.bytes();
        self.settled.insert((ends, id));
        self.by_id
            .insert(id, KeptReservation { entry: TableEntry::Settled(Arc::clone(outcome)), ends });
    }

    /// Remembers for what an open reservation is settled as soon as the store answers, in at most `most` bytes of all.
    pub(super) fn wait(
        &mut self,
        id: ReservationId,
        costs: &[u64],
        now: Timestamp,
        most: usize,
    ) -> SettleWaits {
        let ends = match self.by_id.get(&id) {
            Some(KeptReservation { entry: TableEntry::Open(_), ends }) if now < *ends => *ends,
            _ => return SettleWaits::Closed,
        };
        if let Some(pending) = self.pending(id) {
            // The caller of the first settle was promised these costs, so no later one changes them.
            if pending != costs {
                return SettleWaits::Otherwise(units_of(pending));
            }
        } else if self.claim(of_pending(costs.len()), most) {
            self.pending.insert(id, costs.into());
        } else {
            return SettleWaits::Full;
        }
        // Under the lock of the table one caller alone sees that no task runs, and starts it.
        SettleWaits::Until(ends, !std::mem::replace(&mut self.is_retrying, true))
    }

    /// The pending settle after `after`, or else the first.
    pub(super) fn next_pending(
        &self,
        after: Option<ReservationId>,
    ) -> Option<(ReservationId, Box<[u64]>)> {
        let begin = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut rest = self.pending.range((begin, std::ops::Bound::Unbounded));
        rest.next().map(|(id, costs)| (*id, costs.clone()))
    }

    /// Returns whether no settle waits. If so, the task that settles them must stop.
    pub(super) fn stops_retrying(&mut self) -> bool {
        // Decided under the lock: a settle that begins to wait now either is seen here or starts another task.
        self.is_retrying = !self.pending.is_empty();
        !self.is_retrying
    }

    /// Makes an open reservation end later.
    pub(super) fn extend(&mut self, id: ReservationId, ends: Timestamp) {
        if let Some(kept) = self.by_id.get_mut(&id)
            && matches!(kept.entry, TableEntry::Open(_))
            && kept.ends < ends
        {
            self.open.remove(&(kept.ends, id));
            self.open.insert((ends, id));
            kept.ends = ends;
        }
    }

    /// Forgets an open reservation, whose units stay taken.
    pub(super) fn drop_open(&mut self, id: ReservationId) {
        if self.is_open(id) {
            self.remove(id);
            self.counts.dropped += 1;
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
            if let Some(id) = first_ended(&self.open, now) {
                // Counted by the reason: its settle waited for the store in vain, any server may settle its record,
                // or no caller settled it.
                if self.pending.contains_key(&id) {
                    self.counts.given_up += 1;
                } else if self.is_recorded(id) {
                    self.counts.left += 1;
                } else {
                    self.counts.unsettled += 1;
                }
                self.remove(id);
            } else if let Some(id) = first_ended(&self.settled, now) {
                self.remove(id);
            } else {
                return;
            }
        }
    }

    /// Forgets an open reservation whose record in the store is newer.
    pub(super) fn leave(&mut self, id: ReservationId) {
        if self.is_open(id) {
            self.counts.left += 1;
            self.remove(id);
        }
    }

    fn is_open(&self, id: ReservationId) -> bool {
        matches!(self.by_id.get(&id), Some(KeptReservation { entry: TableEntry::Open(_), .. }))
    }

    fn is_recorded(&self, id: ReservationId) -> bool {
        let entry = self.by_id.get(&id).map(|kept| &kept.entry);
        matches!(entry, Some(TableEntry::Open(open)) if open.claim.is_some())
    }

    /// Removes a reservation from every list, with its bytes.
    fn remove(&mut self, id: ReservationId) {
        let Some(KeptReservation { entry, ends }) = self.by_id.remove(&id) else { return };
        self.unclaim(entry.bytes());
        let TableEntry::Open(open) = entry else {
            self.settled.remove(&(ends, id));
            return;
        };
        self.open.remove(&(ends, id));
        self.counts.open -= 1;
        if let Some(costs) = self.pending.remove(&id) {
            self.unclaim(of_pending(costs.len()));
        }
        // A later request under the same id has another reservation.
        if let Some(print) = open.print
            && self.by_request.get(&print) == Some(&id)
        {
            self.by_request.remove(&print);
        }
    }
}
