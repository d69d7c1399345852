//! Reserves units for work whose cost is known only afterwards, and settles them.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Answer, Request, StoreError, Taken};

use super::reservations::{
    Full, Id, ReservationCounts, Reservations, Settled, Settling, Unsettled,
};
use super::{Limiters, Store};

/// The answer to a reserve, and the reservation of an admitted request. It has none if its answer is repeated and
/// the first is unknown here.
pub(crate) struct Reserved<'a> {
    pub(crate) answer: Answer<'a>,
    pub(crate) reservation: Option<Id>,
}

impl Limiters {
    /// Gives reservations so many bytes of memory.
    pub(crate) fn with_reservation_bytes(self, bytes: usize) -> Self {
        Self { reservations: Reservations::new(bytes), ..self }
    }

    /// Decides like [`Limiters::check`], and keeps what an admitted request took, to be settled within `life`.
    ///
    /// # Errors
    /// Returns an error if there is no room for a reservation; nothing was asked then.
    pub(crate) async fn reserve(
        &self,
        request: &Request<'_>,
        life: Duration,
    ) -> Result<Reserved<'_>, Full> {
        let room = self.reservations.room(request)?;
        let answer = self.check(request).await;
        let reservation = room.keep(&answer, life);
        Ok(Reserved { answer, reservation })
    }

    /// Settles a reservation for what it did cost: one number for each descriptor, or one for all. It is settled
    /// once, also if this future is dropped.
    ///
    /// # Errors
    /// Returns why nothing was settled by this call.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        id: &str,
        actual: &[u64],
    ) -> Result<Arc<Settling>, Unsettled> {
        if self.shared().is_none() {
            return self.settle_to_the_end(id, actual).await;
        }
        let (limiters, id, actual) = (Arc::clone(self), id.to_owned(), actual.to_vec());
        let settling = async move { limiters.settle_to_the_end(&id, &actual).await };
        // Only a panic, which has been logged, leaves no result.
        tokio::spawn(settling).await.unwrap_or(Err(Unsettled::Unknown))
    }

    async fn settle_to_the_end(
        &self,
        id: &str,
        actual: &[u64],
    ) -> Result<Arc<Settling>, Unsettled> {
        let settle = async |request: &Request<'_>, taken: &Taken| match &self.store {
            Store::Memory(gate) => {
                let answer = gate.settle_taken(request, taken, actual);
                Ok(Settling::of(request, actual, Ok(Settled::from(&answer))))
            }
            Store::Shared(gate, _) => {
                match Box::pin(gate.settle_taken(request, taken, actual)).await {
                    Ok(answer) => Ok(Settling::of(request, actual, Ok(Settled::from(&answer)))),
                    Err(error @ (StoreError::Away | StoreError::Overloaded { .. })) => {
                        Err(Unsettled::Undone(error))
                    }
                    Err(error) => Ok(Settling::of(request, actual, Err(error.to_string()))),
                }
            }
        };
        self.reservations.settle(id, actual, settle).await
    }

    /// Makes the permits of a reservation last their lives from now; returns whether all are still out.
    ///
    /// # Errors
    /// Returns why nothing was renewed.
    pub(crate) async fn renew(&self, id: &str) -> Result<bool, Unsettled> {
        let renew = async |request: &Request<'_>, taken: &Taken| match &self.store {
            Store::Memory(gate) => Ok(gate.renew_taken(request, taken)),
            Store::Shared(gate, _) => Box::pin(gate.renew_taken(request, taken)).await,
        };
        self.reservations.renew(id, renew).await
    }

    /// The numbers of reservations, and the bytes of all.
    pub(crate) fn reservations(&self) -> (ReservationCounts, usize) {
        self.reservations.counts()
    }
}
