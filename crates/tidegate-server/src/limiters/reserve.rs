//! Reserves units for work whose cost is known only afterwards, and settles them. HTTP and RESP call
//! [`Limiters::reserve`], [`settle`](Limiters::settle) and [`renew`](Limiters::renew); [`Reservations`] remembers the
//! units, and over a store a record lets any server settle, once.
//!
//! A process *knows* a reservation that is in its table. The *record* is the copy of it in the store, which every server
//! can read; a *claim* takes the record for one server, and after that this server alone settles.

use std::sync::Arc;
use std::time::Duration;

use tidegate::store::RecordReply;
use tidegate::{
    Answer, FirstReservation, FoundReservation, Request, ReservationRecord, SharedGate, Taken,
};
use tokio::time::sleep;

use super::reservations::{
    ListedReservation, ReservationId, Reservations, SettledReservation, Settling, Unreserved,
    Unsettled,
};
use super::{Limiters, ServerStore, was_not_sent};

/// The time between two tries to settle the reservations that wait for the store.
const RETRIED_EVERY: Duration = Duration::from_millis(250);

/// The answer to a reserve, and the reservation of an admitted request. It has none if its answer is repeated and
/// the first is unknown here.
pub(crate) struct ReserveAnswer<'a> {
    pub(crate) answer: Answer<'a>,
    pub(crate) reservation: Option<ReservationId>,
}

impl Limiters {
    /// Gives reservations this many bytes of memory.
    pub(crate) fn with_reservation_bytes(self, bytes: usize) -> Self {
        Self { reservations: Reservations::new(bytes), ..self }
    }

    /// Decides like [`Limiters::check`], and keeps what an admitted request took, to be settled within `life`.
    ///
    /// # Errors
    /// Returns an error if there is no room for a reservation, or if a rule does not let it live so long; nothing was
    /// asked then. Or the request was admitted, and the store did not confirm the record of its reservation.
    pub(crate) async fn reserve(
        &self,
        request: &Request<'_>,
        life: Option<Duration>,
    ) -> Result<ReserveAnswer<'_>, Unreserved> {
        let mut space = self.reservations.space(request, &self.policy(), life)?;
        let Some(gate) = self.shared() else {
            let answer = self.check(&request.reserving()).await;
            let reservation = space.keep(&answer);
            return Ok(ReserveAnswer { answer, reservation });
        };
        let name = space.id.bytes();
        let life = space.life;
        // The store remembers the name with the answer, so a repeated request finds this reservation at any server.
        let answer = self.check(&request.reserving_as(&name, life)).await;
        if let Some(first) = answer.first_reservation().filter(|_| answer.is_allowed()) {
            let reservation = self.reservation_of_first(gate, (request, &answer), *first).await?;
            return Ok(ReserveAnswer { answer, reservation });
        }
        // Written before the id is returned, because the caller may settle at another server at once.
        if space.needs_record(&answer) {
            let taken = Taken::from(&answer);
            let record = ReservationRecord::of(gate, &name);
            space.note_record(Box::pin(record.write(request, &taken, life)).await)?;
        }
        let reservation = space.keep(&answer);
        Ok(ReserveAnswer { answer, reservation })
    }

    /// The open reservation of the request whose answer is repeated. Its record is written here if the first server did
    /// not come to it: its reply was lost, or came too late.
    async fn reservation_of_first(
        &self,
        gate: &SharedGate,
        (request, answer): (&Request<'_>, &Answer<'_>),
        FirstReservation { name, left }: FirstReservation,
    ) -> Result<Option<ReservationId>, Unreserved> {
        let id = ReservationId::from_bytes(name).to_string();
        let mut known = self.know(&id).await;
        // Without an error, and unknown still: the store has no record. After the end of a reservation the record of a
        // settled reservation is gone as well, so nothing is written then.
        if known.is_ok() && self.reservations.to_read(&id) != Ok(None) && !left.is_zero() {
            let record = ReservationRecord::of(gate, &name);
            let written = Box::pin(record.write(request, &Taken::by_first(answer), left)).await;
            known = match written {
                Ok(_) => self.know(&id).await,
                Err(error) => Err(Unsettled::Undone(error)),
            };
        }
        match known {
            Err(Unsettled::Undone(error)) => Err(Unreserved::Unrecorded(error)),
            Err(Unsettled::Full) => Err(Unreserved::Full),
            _ => Ok(self.reservations.open(name)),
        }
    }

    /// Settles a reservation for its actual cost: one number for each descriptor, or one for all. It is settled once,
    /// also if this future is dropped. If the store does not answer and was not asked, it is settled as soon as the
    /// store does.
    ///
    /// # Errors
    /// Returns why nothing was settled by this call.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        id: &str,
        actual: &[u64],
    ) -> Result<Settling, Unsettled> {
        if self.shared().is_none() {
            return self.settle_to_the_end(id, actual).await;
        }
        // A task of its own: a caller that leaves must not end the settle between its claim and its units.
        let limiters = Arc::clone(self);
        let id = id.to_owned();
        let actual = actual.to_vec();
        let settling = tokio::spawn(async move { limiters.settle_or_wait(&id, &actual).await });
        // Only a panic, which has been logged, leaves no result.
        settling.await.unwrap_or(Err(Unsettled::Unknown))
    }

    /// Settles a reservation, or leaves it to the task that settles when the store answers.
    async fn settle_or_wait(
        self: &Arc<Self>,
        id: &str,
        actual: &[u64],
    ) -> Result<Settling, Unsettled> {
        // Only an error that left the store unasked may be tried again later.
        let error = match self.settle_to_the_end(id, actual).await {
            Err(Unsettled::Undone(error)) => error,
            settled => return settled,
        };
        match self.reservations.wait(id, actual, error)? {
            Some((ends, is_first)) => {
                if is_first {
                    tokio::spawn(Arc::clone(self).settle_pending());
                }
                Err(Unsettled::Pending(ends))
            }
            // Another call has settled it since.
            None => self.settle_to_the_end(id, actual).await,
        }
    }

    /// Settles the reservations that wait for the store, until none does.
    async fn settle_pending(self: Arc<Self>) {
        while !self.reservations.stops_retrying() {
            sleep(RETRIED_EVERY).await;
            let mut last = None;
            while let Some((id, actual)) = self.reservations.next_pending(last) {
                // A reservation that is not settled waits for the next round: other shards may answer.
                let _ = self.settle_to_the_end(&id.to_string(), &actual).await;
                last = Some(id);
                tokio::task::yield_now().await;
            }
        }
    }

    /// Settles a reservation with its limiters, once. Over a store this server claims its record first.
    async fn settle_to_the_end(&self, id: &str, actual: &[u64]) -> Result<Settling, Unsettled> {
        self.know(id).await?;
        let settling = self.reservations.settle(id, actual, async |request, taken| {
            let settled = match &self.store {
                ServerStore::Memory(gate) => Ok(gate.settle(request, taken, actual)),
                ServerStore::Shared(gate, _) => {
                    // The record first: it lets one server settle, and a claim may be repeated by the server that made it.
                    self.claim(gate, id).await?;
                    Box::pin(gate.settle(request, taken, actual)).await
                }
            };
            match settled {
                Ok(answer) => {
                    self.lost.note(&answer);
                    Ok(Ok(SettledReservation::of(&answer, actual)))
                }
                // The store was not asked.
                Err(error) if was_not_sent(&error) => Err(Unsettled::Undone(error)),
                // The store may have settled it, so it is not settled again: that could give units back twice.
                Err(error) => {
                    self.lost.note_unknown(request, actual);
                    Ok(Err(error.to_string().into()))
                }
            }
        });
        let settling = settling.await?;
        self.lost.note_nothing(settling.cut_of_nothing);
        Ok(settling)
    }

    /// Reads the record of a reservation of another server, or of this server before its last start.
    ///
    /// # Errors
    /// It was settled elsewhere, or the store did not reply, or there is no room for the reservation.
    async fn know(&self, id: &str) -> Result<(), Unsettled> {
        let Some(gate) = self.shared() else { return Ok(()) };
        let Some(name) = self.reservations.to_read(id)? else { return Ok(()) };
        let found = Box::pin(ReservationRecord::of(gate, &name).read()).await;
        match found.map_err(Unsettled::Undone)? {
            FoundReservation::Open(recorded, left) => self.reservations.add(name, &recorded, left),
            FoundReservation::Claimed => Err(Unsettled::Elsewhere),
            FoundReservation::Unknown => Ok(()),
        }
    }

    /// Claims the record of a reservation, if it has one.
    ///
    /// # Errors
    /// It was settled elsewhere or has ended, or the store did not reply; the claim may be repeated then.
    async fn claim(&self, gate: &SharedGate, id: &str) -> Result<(), Unsettled> {
        let Some((name, number, _)) = self.reservations.recorded(id) else { return Ok(()) };
        let claimed = ReservationRecord::of(gate, &name).claim(number).await;
        let why = match claimed.map_err(Unsettled::Undone)? {
            RecordReply::Claimed => Unsettled::Elsewhere,
            RecordReply::Unknown => Unsettled::Unknown,
            _ => return Ok(()),
        };
        self.reservations.leave(id);
        Err(why)
    }

    /// Makes the permits of a reservation last their lives from now; returns whether all are still out.
    ///
    /// # Errors
    /// Returns why nothing was renewed.
    pub(crate) async fn renew(&self, id: &str) -> Result<bool, Unsettled> {
        self.know(id).await?;
        let are_out = self.reservations.renew(id, async |request, taken| match &self.store {
            ServerStore::Memory(gate) => Ok(gate.renew(request, taken)),
            ServerStore::Shared(gate, _) => Box::pin(gate.renew(request, taken)).await,
        });
        let are_out = are_out.await?;
        // The record lasts as long as its permits: another server may renew or settle it next.
        if are_out
            && let Some(gate) = self.shared()
            && let Some((name, _, life)) = self.reservations.recorded(id)
        {
            let extended = Box::pin(ReservationRecord::of(gate, &name).extend(life)).await;
            extended.map_err(Unsettled::Unrenewed)?;
        }
        Ok(are_out)
    }

    /// Forgets an open reservation, also of another server of the store. Its units stay taken.
    ///
    /// # Errors
    /// Returns why there is none.
    pub(crate) async fn drop_reservation(&self, id: &str) -> Result<(), Unsettled> {
        self.know(id).await?;
        if let Some(gate) = self.shared() {
            // A claimed record settles nowhere else.
            self.claim(gate, id).await?;
        }
        self.reservations.drop_open(id)
    }

    /// The open reservations that end first, at most `most`.
    pub(crate) fn list_reservations(&self, most: usize) -> Vec<ListedReservation> {
        self.reservations.list(&self.policy(), most)
    }
}
