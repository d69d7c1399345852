//! Reservations that are records in a store: any server of the store settles them, once. `limiters/reserve.rs`
//! writes, reads and claims the records; this file notes the results in the table.
//!
//! A server that knows a reservation, because it made it or read its record, claims the record before it settles. So
//! a reservation that another server has settled is known here until it ends, and cannot be settled again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidegate::{Answer, Clock, RecordedReservation, StoreError};

use super::reserved_request::ReservedRequest;
use super::table::TableEntry;
use super::{
    Nothing, OpenReservation, ReservationId, ReservationSpace, Reservations, Unreserved, Unsettled,
};

impl<C: Clock> ReservationSpace<'_, C> {
    /// Returns whether a record is to be written: the request holds something of its own.
    pub(crate) fn needs_record(&self, answer: &Answer<'_>) -> bool {
        self.asked.is_some() && answer.is_allowed() && !answer.is_repeated()
    }

    /// Notes whether the record was written. If that is not known, another server may read it: then the reservation gets
    /// another id, which this process alone knows.
    ///
    /// # Errors
    /// Returns the error if the store remembers the first id: a caller that repeats the request gets that id.
    pub(crate) fn note_record(
        &mut self,
        written: Result<bool, StoreError>,
    ) -> Result<(), Unreserved> {
        match written {
            // The spare id is not needed now, so its number serves as a claim that no other process has.
            Ok(true) => self.claim = Some(self.spare.number()),
            Ok(false) => {}
            Err(error) if self.is_remembered => return Err(Unreserved::Unrecorded(error)),
            Err(_) => self.id = self.spare,
        }
        Ok(())
    }
}

impl<C: Clock> Reservations<C> {
    /// The name of the record to read, because this process does not know the reservation; `None` if it does.
    ///
    /// # Errors
    /// The text is no id.
    pub(crate) fn to_read(&self, id: &str) -> Result<Option<[u8; 16]>, Unsettled> {
        let id = ReservationId::parse(id).ok_or(Unsettled::NoId)?;
        let is_known =
            Nothing::of(id).is_some() || self.table().get(id, self.clock.now()).is_some();
        Ok((!is_known).then(|| id.bytes()))
    }

    /// Adds a reservation whose record was read, and lasts `left`.
    ///
    /// # Errors
    /// There is no room for the reservation.
    pub(crate) fn add(
        &self,
        id: [u8; 16],
        of: &RecordedReservation,
        left: Duration,
    ) -> Result<(), Unsettled> {
        let asked = of.ask(async |request| ReservedRequest::of(request)).now_or_never().flatten();
        let claim = ReservationId::random().ok_or(Unsettled::Full)?.number();
        let open = OpenReservation::new(
            asked.ok_or(Unsettled::Full)?,
            of.taken().clone(),
            None,
            of.life(),
        );
        let id = ReservationId::from_bytes(id);
        let now = self.clock.now();
        let mut table = self.table();
        table.drop_ended(now);
        // Another call may have read it as well.
        if table.get(id, now).is_some() {
            return Ok(());
        }
        // It may have ended here and not be dropped yet, while another server has extended its record.
        table.leave(id);
        if !table.claim(open.bytes, self.most_bytes) {
            return Err(Unsettled::Full);
        }
        let claimed = open.bytes;
        table.insert(
            id,
            Arc::new(OpenReservation { claim: Some(claim), ..open }),
            claimed,
            now.plus(left),
        );
        Ok(())
    }

    /// The id with this name; `None` if this process knows no open reservation of it.
    pub(crate) fn open(&self, name: [u8; 16]) -> Option<ReservationId> {
        let id = ReservationId::from_bytes(name);
        let entry = self.table().get(id, self.clock.now())?;
        matches!(entry, TableEntry::Open(_)).then_some(id)
    }

    /// The name, the claim and the life of the record of an open reservation; `None` if it has none.
    pub(crate) fn recorded(&self, id: &str) -> Option<([u8; 16], u64, Duration)> {
        let id = ReservationId::parse(id)?;
        match self.table().get(id, self.clock.now())? {
            TableEntry::Open(open) => Some((id.bytes(), open.claim?, open.life)),
            TableEntry::Settled(_) => None,
        }
    }

    /// Forgets a reservation that another server has settled, or whose record has ended.
    pub(crate) fn leave(&self, id: &str) {
        if let Some(id) = ReservationId::parse(id) {
            self.table().leave(id);
        }
    }
}
