//! Reservations: units that were taken for work whose cost is known only afterwards, by an id.
//!
//! A reservation that nobody settles ends after its life, and its units stay taken. Only this process knows its
//! reservations: after a restart their ids are unknown, and units that a store keeps stay taken.

mod asked;
mod id;
mod settled;
mod table;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::{Answer, Clock, Request, StoreError, SystemClock, Taken};
use tokio::sync::OnceCell;

use asked::Asked;
pub(crate) use id::Id;
pub(crate) use settled::{Settled, Settling, Unsettled};
pub(crate) use table::Counts as ReservationCounts;
use table::{Counts, Entry, Table};

/// How long a settled reservation is remembered, so that it can be settled again for the same cost.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The reservations of this process, within a bound on their memory.
#[derive(Debug)]
pub(crate) struct Reservations<C = SystemClock> {
    table: Mutex<Table>,
    clock: C,
    most_bytes: usize,
}

/// Why nothing was asked: there is no room for one more reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// A reservation that is not settled.
#[derive(Debug)]
struct Open {
    asked: Arc<Asked>,
    taken: Taken,
    outcome: OnceCell<Arc<Settling>>,
    life: Duration,
}

/// Room for one reservation, which is given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Room<'t, C: Clock> {
    of: &'t Reservations<C>,
    id: Id,
    asked: Arc<Asked>,
    bytes: usize,
}

impl Reservations {
    /// Room for the number of bytes that the setting has by default.
    pub(super) fn usual() -> Self {
        Self::new(64 << 20)
    }

    /// Room for so many bytes of reservations.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self::with_clock(most_bytes, SystemClock::new())
    }
}

impl<C: Clock> Reservations<C> {
    pub(crate) fn with_clock(most_bytes: usize, clock: C) -> Self {
        Self { table: Mutex::default(), clock, most_bytes }
    }

    /// The numbers of reservations, and the bytes of all.
    pub(crate) fn counts(&self) -> (Counts, usize) {
        let mut table = self.table();
        table.drop_ended(self.clock.now());
        (table.counts(), table.bytes)
    }

    /// Claims room for a reservation before the request is asked.
    ///
    /// # Errors
    /// Returns an error if there is none.
    pub(crate) fn room(&self, request: &Request<'_>) -> Result<Room<'_, C>, Full> {
        let id = Id::random().ok_or(Full)?;
        let asked = Arc::new(Asked::of(request));
        let bytes = Entry::BYTES + asked.bytes();
        let mut table = self.table();
        table.drop_ended(self.clock.now());
        if table.bytes + bytes > self.most_bytes {
            return Err(Full);
        }
        table.bytes += bytes;
        drop(table);
        Ok(Room { of: self, id, asked, bytes })
    }

    /// Settles a reservation with `settle`, once: a repeated call with the same costs has the same outcome. `settle`
    /// must be run to its end.
    ///
    /// # Errors
    /// Returns why nothing was settled by this call.
    pub(crate) async fn settle(
        &self,
        id: &str,
        actual: &[u64],
        settle: impl AsyncFnOnce(&Request<'_>, &Taken) -> Result<Settling, Unsettled>,
    ) -> Result<Arc<Settling>, Unsettled> {
        let id = Id::parse(id).ok_or(Unsettled::NoId)?;
        let entry = self.table().get(id, self.clock.now()).ok_or(Unsettled::Unknown)?;
        let outcome = match entry {
            Entry::Settled(outcome) => outcome,
            Entry::Open(open) => {
                let descriptors = open.asked.descriptors();
                if actual.len() != 1 && actual.len() != descriptors {
                    return Err(Unsettled::Costs { descriptors });
                }
                let run = async || {
                    open.asked.ask(async |request| settle(request, &open.taken).await).await
                };
                let outcome =
                    open.outcome.get_or_try_init(async || run().await.map(Arc::new)).await?;
                self.table().settled(id, outcome, self.clock.now().plus(REMEMBERED));
                Arc::clone(outcome)
            }
        };
        if *outcome.actual == *actual { Ok(outcome) } else { Err(Unsettled::Otherwise) }
    }

    /// Renews the permits of a reservation with `renew`, and returns whether all are still out. If they are, the reservation
    /// lasts its whole life from now. A reservation that is settled has no permits.
    ///
    /// # Errors
    /// Returns why nothing was renewed.
    pub(crate) async fn renew(
        &self,
        id: &str,
        renew: impl AsyncFnOnce(&Request<'_>, &Taken) -> Result<bool, StoreError>,
    ) -> Result<bool, Unsettled> {
        let id = Id::parse(id).ok_or(Unsettled::NoId)?;
        let entry = self.table().get(id, self.clock.now()).ok_or(Unsettled::Unknown)?;
        let Entry::Open(open) = entry else { return Ok(false) };
        let are_out = open.asked.ask(async |request| renew(request, &open.taken).await).await;
        let are_out = are_out.map_err(Unsettled::Unrenewed)?;
        let mut table = self.table();
        if are_out {
            table.extend(id, self.clock.now().plus(open.life));
        }
        let is_event = table.renewed(are_out);
        drop(table);
        match are_out {
            _ if !is_event => {}
            true => tracing::info!("permits are renewed in time again"),
            false => tracing::warn!(
                "permits are renewed too late: others may have their places, and the answer to the caller is `false`; \
                 expected a renewal every third of the rule's `window`, or a longer `window`"
            ),
        }
        Ok(are_out)
    }

    /// A panic while it is locked leaves at most one entry without its place in another list.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Clock> Room<'_, C> {
    /// Keeps the reservation if the request was admitted, and returns its id. The id of an answer that is repeated
    /// is that of the first, while it is known.
    pub(crate) fn keep(mut self, answer: &Answer<'_>, life: Duration) -> Option<Id> {
        if !answer.is_allowed() {
            return None;
        }
        let mut table = self.of.table();
        if answer.is_repeated() {
            return table.of_request(&self.asked);
        }
        let open = Open {
            asked: Arc::clone(&self.asked),
            taken: Taken::from(answer),
            outcome: OnceCell::new(),
            life,
        };
        let ends = self.of.clock.now().plus(life);
        table.insert(self.id, Arc::new(open), std::mem::take(&mut self.bytes), ends);
        Some(self.id)
    }
}

impl<C: Clock> Drop for Room<'_, C> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.of.table().bytes -= self.bytes;
        }
    }
}
