//! Reservations that any node can settle: each is a record in the store.

use std::time::Duration;

use super::SharedGate;
use crate::frontend::{RecordedReservation, Taken};
use crate::request::Request;
use crate::store::{RecordReply, RecordVerb, Store, StoreError};

/// The record of a reservation in the store, with which any node can settle it.
///
/// A node that reserves units writes it, and a node that settles them claims it first: of all claims one succeeds. The
/// record ends by itself after its life, and its units then stay taken.
///
/// ```no_run
/// use std::time::Duration;
/// use tidegate::store::RecordReply;
/// use tidegate::{FoundReservation, Request, ReservationRecord, SharedGate, StoreError, Taken};
///
/// /// Reserves units; returns whether any node can settle them by this id.
/// async fn reserve(gate: &SharedGate, id: &[u8], request: &Request<'_>) -> Result<bool, StoreError> {
///     let taken = Taken::from(&gate.check(request.reserving()).await);
///     ReservationRecord::of(gate, id).write(request, &taken, Duration::from_secs(60)).await
/// }
///
/// /// Settles a reservation of any node; returns whether this call did. `mine` is a random number.
/// async fn settle(gate: &SharedGate, id: &[u8], actual: u64, mine: u64) -> Result<bool, StoreError> {
///     let record = ReservationRecord::of(gate, id);
///     let FoundReservation::Open(reserved, _) = record.read().await? else { return Ok(false) };
///     if record.claim(mine).await? != RecordReply::Done {
///         return Ok(false);
///     }
///     let taken = reserved.taken();
///     reserved.ask(async |request| gate.settle(request, taken, &[actual]).await).await?;
///     Ok(true)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReservationRecord<'g, S: Store> {
    gate: &'g SharedGate<S>,
    id: &'g [u8],
}

/// A record that was looked for ([`ReservationRecord::read`]).
#[derive(Debug)]
pub enum FoundReservation {
    /// The store has no such record: it has ended, was lost, or was never written.
    Unknown,
    /// It was claimed.
    Claimed,
    /// It can be claimed; with the rest of its life.
    Open(RecordedReservation, Duration),
}

impl<'g, S: Store> ReservationRecord<'g, S> {
    /// Returns the record of the reservation with this id. Any caller that knows the id can settle the reservation, so
    /// it must be one that no caller guesses, and is given once. The store sees only its digest.
    #[must_use]
    pub const fn of(gate: &'g SharedGate<S>, id: &'g [u8]) -> Self {
        Self { gate, id }
    }

    /// Writes the units that a request took, for `life`. Returns false, and writes nothing, if it took none, or if they
    /// were taken without the store: then only this node can settle it. A record that was written before stays as it is.
    ///
    /// # Errors
    /// The store did not reply, or keeps no records. The record may have been written, so its id must not be given to a
    /// caller.
    pub async fn write(
        &self,
        request: &Request<'_>,
        taken: &Taken,
        life: Duration,
    ) -> Result<bool, StoreError> {
        // Units that this process decided about are not in the store, and come back to this process alone.
        if taken.is_nothing() || taken.lack.is_some() {
            return Ok(false);
        }
        let in_force = self.gate.newest();
        let content = RecordedReservation::write(request, taken, life, |rule| {
            in_force.generation.name_of(rule)
        });
        let Some(content) = content else { return Ok(false) };
        let verb = RecordVerb::Write { content: &content, life };
        // A record that is claimed was written before.
        Ok(matches!(self.run(verb).await?, RecordReply::Done | RecordReply::Claimed))
    }

    /// Reads the record, if it can be claimed.
    ///
    /// # Errors
    /// The store did not reply, or the record is of another version.
    pub async fn read(&self) -> Result<FoundReservation, StoreError> {
        let (content, left) = match self.run(RecordVerb::Read).await? {
            RecordReply::Content(content, left) => (content, left),
            RecordReply::Claimed => return Ok(FoundReservation::Claimed),
            RecordReply::Unknown | RecordReply::Done => return Ok(FoundReservation::Unknown),
        };
        let in_force = self.gate.newest();
        match RecordedReservation::read(&content, |domain, name| {
            in_force.generation.lineage_of(domain, name)
        }) {
            Some(recorded) => Ok(FoundReservation::Open(recorded, left)),
            None => Err(StoreError::OtherVersion("a record of a reservation".to_owned())),
        }
    }

    /// Claims the record with a random number: [`RecordReply::Done`] if this claim has it. A claim that is repeated with
    /// its number has the same reply.
    ///
    /// # Errors
    /// The store did not reply. The claim may be repeated.
    pub async fn claim(&self, by: u64) -> Result<RecordReply, StoreError> {
        self.run(RecordVerb::Claim { by }).await
    }

    /// Makes the record last `life` from now, if it was not claimed.
    ///
    /// # Errors
    /// The store did not reply; the record may end when it would have.
    pub async fn extend(&self, life: Duration) -> Result<RecordReply, StoreError> {
        self.run(RecordVerb::Extend { life }).await
    }

    async fn run(&self, verb: RecordVerb<'_>) -> Result<RecordReply, StoreError> {
        self.gate.newest().tower.record(self.id, verb).await
    }
}
