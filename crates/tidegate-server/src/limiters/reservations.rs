//! Reservations: units that were taken for work whose cost is known only afterwards, by an id. `limiters/reserve.rs`
//! asks the limiters; this file remembers each reservation until it is settled or ends.
//!
//! A reservation that is not settled ends after its life, and its units stay taken. Over a store it is a record there,
//! which any process can claim, once (`recorded`). Without one only this process knows its reservations: after a restart
//! their ids are unknown.

mod id;
mod open;
mod recorded;
mod reserved_request;
mod settled;
mod table;

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::{Answer, Clock, Policy, Request, StoreError, SystemClock, Taken, Timestamp};

use id::Nothing;
pub(crate) use id::ReservationId;
pub(crate) use open::ListedReservation;
use open::{OpenReservation, ReservationTerms};
use reserved_request::ReservedRequest;
pub(crate) use settled::{
    ReservationEnd, SettleResult, SettledReservation, Settling, Unreserved, Unsettled,
};
pub(crate) use table::ReservationCounts;
use table::{RequestPrint, ReservationTable, SettleWaits, TableEntry, units_of};

/// The time for which a settled reservation is remembered, so that it can be settled again for the same cost.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The reservations of this process, within a bound on their memory.
#[derive(Debug)]
pub(crate) struct Reservations<C = SystemClock> {
    table: Mutex<ReservationTable>,
    clock: C,
    most_bytes: usize,
    prints: [RandomState; 2],
}

/// Room for one reservation, which is given up when this is dropped.
#[derive(Debug)]
pub(crate) struct ReservationSpace<'t, C: Clock> {
    of: &'t Reservations<C>,
    pub(super) id: ReservationId,
    /// `None` if the request costs nothing.
    asked: Option<ReservedRequest>,
    print: Option<RequestPrint>,
    pub(super) life: Duration,
    bytes: usize,
    /// Another id, in case that the record of the first is in doubt.
    spare: ReservationId,
    /// True if the store may remember the answer, and with it the id.
    is_remembered: bool,
    /// The number with which this process claims the record in the store; `None` if there is no record.
    claim: Option<u64>,
}

impl Reservations {
    /// Room for the number of bytes that the setting has by default.
    pub(super) fn usual() -> Self {
        Self::new(64 << 20)
    }

    /// Room for this many bytes of reservations.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self::with_clock(most_bytes, SystemClock::new())
    }
}

impl<C: Clock> Reservations<C> {
    pub(crate) fn with_clock(most_bytes: usize, clock: C) -> Self {
        let prints = [RandomState::new(), RandomState::new()];
        Self { table: Mutex::default(), clock, most_bytes, prints }
    }

    /// The numbers of reservations, and the bytes of all.
    pub(crate) fn counts(&self) -> (ReservationCounts, usize) {
        let mut table = self.table();
        table.drop_ended(self.clock.now());
        (table.counts(), table.bytes())
    }

    /// Claims room for a reservation before the request is asked. A request that costs nothing needs none.
    ///
    /// # Errors
    /// Returns an error if there is none, or if the life is longer than a rule of the request lets it be.
    pub(crate) fn space(
        &self,
        request: &Request<'_>,
        policy: &Policy,
        life: Option<Duration>,
    ) -> Result<ReservationSpace<'_, C>, Unreserved> {
        let terms = ReservationTerms::of(policy, request);
        let life = terms.life(life)?;
        // Both ids are made now, because a request that has taken units must not fail for want of random numbers.
        let id = ReservationId::random().ok_or(Unreserved::Full)?;
        let spare = ReservationId::random().ok_or(Unreserved::Full)?;
        let mut space = ReservationSpace {
            of: self,
            id,
            asked: None,
            print: None,
            life,
            bytes: 0,
            spare,
            is_remembered: request.id().is_some() && terms.dedupes,
            claim: None,
        };
        if request.descriptors().iter().all(|one| one.units() == 0) {
            return Ok(space);
        }
        let asked = ReservedRequest::of(request).ok_or(Unreserved::Full)?;
        space.print =
            request.id().map(|id| self.print(&(id, request.domain(), prints_of(request))));
        let bytes = OpenReservation::bytes_of(&asked, space.print, terms.taken_bytes());
        space.asked = Some(asked);
        let mut table = self.table();
        table.drop_ended(self.clock.now());
        if !table.claim(bytes, self.most_bytes) {
            return Err(Unreserved::Full);
        }
        drop(table);
        space.bytes = bytes;
        Ok(space)
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
        settle: impl AsyncFnOnce(
            &Request<'_>,
            &Taken,
        ) -> Result<Result<SettledReservation, Box<str>>, Unsettled>,
    ) -> Result<Settling, Unsettled> {
        let id = ReservationId::parse(id).ok_or(Unsettled::NoId)?;
        let costs = self.prints[0].hash_one(actual);
        // Under one lock: a settle that begins to wait in between must be seen together with its reservation.
        let (entry, otherwise) = {
            let table = self.table();
            let otherwise = table.pending(id).filter(|pending| *pending != actual);
            (table.get(id, self.clock.now()), otherwise.map(units_of))
        };
        let asked = Some(units_of(actual));
        let mut done = None;
        let outcome = match entry {
            None => return self.settled_for_nothing(id, actual).ok_or(Unsettled::Unknown),
            Some(TableEntry::Settled(outcome)) => outcome,
            Some(TableEntry::Open(open)) => {
                if let Some(settled) = otherwise {
                    return Err(Unsettled::Otherwise { settled, asked });
                }
                let descriptors = open.asked.costs().len();
                if actual.len() != 1 && actual.len() != descriptors {
                    return Err(Unsettled::Costs { descriptors });
                }
                // The cell lets one call settle at a time, and the others wait for its result. After an error the next of them
                // settles, because nothing was settled then.
                let outcome = open.outcome.get_or_try_init(async || {
                    let settled =
                        open.asked.ask(async |request| settle(request, &open.taken).await);
                    let stand = settled.await?;
                    done = Some(SettleResult {
                        domain: open.asked.domain().to_owned(),
                        reserved: open.asked.costs().collect(),
                        actual: actual.to_vec(),
                    });
                    Ok(Arc::new(ReservationEnd { costs, units: units_of(actual), stand }))
                });
                let outcome = outcome.await?;
                // Every call that waited for the cell comes here, and the table takes the outcome once.
                self.table().settled(id, outcome, self.clock.now().plus(REMEMBERED));
                Arc::clone(outcome)
            }
        };
        // Calls with other costs may have waited for the same cell.
        if outcome.costs == costs {
            Ok(Settling { outcome, done, cut_of_nothing: 0 })
        } else {
            Err(Unsettled::Otherwise { settled: outcome.units, asked })
        }
    }

    /// The settle of a reservation that held nothing; `None` if there is no such reservation.
    fn settled_for_nothing(&self, id: ReservationId, actual: &[u64]) -> Option<Settling> {
        let is_unlimited = Nothing::of(id)? == Nothing::Unlimited;
        // Without a limiter no units are missing. A free request has limiters, but its id does not say which.
        let is_cut = !is_unlimited && actual.iter().any(|units| *units > 0);
        let cut: Box<[u64]> = if is_cut { actual.into() } else { Box::default() };
        let cut_of_nothing = cut.iter().fold(0, |all: u64, units| all.saturating_add(*units));
        let settled = SettledReservation::nothing(self.clock.now(), is_unlimited, cut);
        let outcome = Arc::new(ReservationEnd { costs: 0, units: 0, stand: Ok(settled) });
        Some(Settling { outcome, done: None, cut_of_nothing })
    }

    /// Remembers that an open reservation is settled for these costs as soon as the store answers. Returns when it ends,
    /// and whether no caller settles such reservations yet, so that this caller has to; `None` if it is open no more.
    ///
    /// # Errors
    /// Returns an error if another settle waits for the store, or if there is no room for one more, with `error` as the
    /// reason why nothing was settled.
    pub(crate) fn wait(
        &self,
        id: &str,
        actual: &[u64],
        error: StoreError,
    ) -> Result<Option<(Timestamp, bool)>, Unsettled> {
        let id = ReservationId::parse(id).ok_or(Unsettled::NoId)?;
        match self.table().wait(id, actual, self.clock.now(), self.most_bytes) {
            SettleWaits::Until(ends, is_first) => Ok(Some((ends, is_first))),
            SettleWaits::Closed => Ok(None),
            SettleWaits::Otherwise(settled) => {
                Err(Unsettled::Otherwise { settled, asked: Some(units_of(actual)) })
            }
            SettleWaits::Full => Err(Unsettled::Undone(error)),
        }
    }

    /// The waiting settle after the settle of `after`, or the first.
    pub(crate) fn next_pending(
        &self,
        after: Option<ReservationId>,
    ) -> Option<(ReservationId, Box<[u64]>)> {
        let mut table = self.table();
        table.drop_ended(self.clock.now());
        table.next_pending(after)
    }

    /// Returns whether no settle waits for the store; then the caller stops to settle them.
    pub(crate) fn stops_retrying(&self) -> bool {
        self.table().stops_retrying()
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
        let id = ReservationId::parse(id).ok_or(Unsettled::NoId)?;
        let entry = self.table().get(id, self.clock.now());
        let open = match entry {
            Some(TableEntry::Open(open)) => open,
            Some(TableEntry::Settled(_)) => return Ok(false),
            // It has no permit that could be lost.
            None => return Nothing::of(id).map(|_| true).ok_or(Unsettled::Unknown),
        };
        let are_out = open.asked.ask(async |request| renew(request, &open.taken).await).await;
        let are_out = are_out.map_err(Unsettled::Unrenewed)?;
        let mut table = self.table();
        if are_out {
            table.extend(id, self.clock.now().plus(open.life));
        }
        let is_event = table.renewed(are_out);
        drop(table);
        if is_event && are_out {
            tracing::info!("permits are renewed in time again");
        } else if is_event {
            tracing::warn!(
                "permits are renewed too late: others may have their places, and the answer to the caller is `false`; \
                 expected a renewal every third of the rule's `window`, or a longer `window`"
            );
        }
        Ok(are_out)
    }

    /// The open reservations that end first, at most `most`.
    pub(crate) fn list(&self, policy: &Policy, most: usize) -> Vec<ListedReservation> {
        // The keys are found without the lock, which every reserve and settle needs.
        let open = {
            let mut table = self.table();
            table.drop_ended(self.clock.now());
            table.first_to_end(most)
        };
        let listed = open.into_iter().map(|(id, ends, open, pending)| ListedReservation {
            id: Some(id),
            keys: open.keys(policy),
            costs: open.asked.costs().collect(),
            ends_us: ends.as_micros(),
            bytes: open.bytes,
            pending,
        });
        listed.collect()
    }

    /// Forgets an open reservation: its units stay taken, as if its life was over.
    ///
    /// # Errors
    /// Returns why there is none.
    pub(crate) fn drop_open(&self, id: &str) -> Result<(), Unsettled> {
        let id = ReservationId::parse(id).ok_or(Unsettled::NoId)?;
        let mut table = self.table();
        match table.get(id, self.clock.now()) {
            Some(TableEntry::Open(_)) => table.drop_open(id),
            Some(TableEntry::Settled(end)) => {
                return Err(Unsettled::Otherwise { settled: end.units, asked: None });
            }
            None => return Err(Unsettled::Unknown),
        }
        Ok(())
    }

    fn print(&self, of: &impl std::hash::Hash) -> RequestPrint {
        let [high, low] = [0, 1].map(|number| u128::from(self.prints[number].hash_one(of)));
        high << 64 | low
    }

    /// A panic while it is locked leaves at most one entry without its place in another list.
    fn table(&self) -> MutexGuard<'_, ReservationTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts of a request's descriptors that identify it, in a form that can be hashed.
fn prints_of<'r>(request: &'r Request<'_>) -> Vec<(&'r [(&'r str, &'r str)], u64)> {
    request.descriptors().iter().map(|one| (one.entries(), one.units())).collect()
}

impl<C: Clock> ReservationSpace<'_, C> {
    /// Keeps the reservation if the request was admitted, and returns its id. A repeated answer has the id of the first
    /// answer, while it is known. A reservation that holds nothing is only an id.
    pub(crate) fn keep(mut self, answer: &Answer<'_>) -> Option<ReservationId> {
        if !answer.is_allowed() {
            return None;
        }
        let Some(asked) = self.asked.take() else { return Nothing::Free.id() };
        // The units of a repeated answer belong to the reservation of the first.
        if answer.is_repeated() {
            return self.of.table().of_request(self.print?);
        }
        let taken = Taken::from(answer);
        if taken.is_nothing() {
            return Nothing::Unlimited.id();
        }
        let open = OpenReservation {
            claim: self.claim,
            ..OpenReservation::new(asked, taken, self.print, self.life)
        };
        let ends = self.of.clock.now().plus(self.life);
        // The table takes the claim over, so the drop of this must not give it up.
        let claimed = std::mem::take(&mut self.bytes);
        self.of.table().insert(self.id, Arc::new(open), claimed, ends);
        Some(self.id)
    }
}

impl<C: Clock> Drop for ReservationSpace<'_, C> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.of.table().unclaim(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests;
