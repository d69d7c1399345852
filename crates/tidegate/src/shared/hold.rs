//! Charges by outcome over a store: a cost that is taken first, and given back if the work turns out to be
//! free.

use super::SharedGate;
use crate::answer::Answer;
use crate::frontend::{Charge, Taken};
use crate::request::Request;
use crate::store::{Store, StoreError};

impl<S: Store> SharedGate<S> {
    /// Decides a request like [`SharedGate::check`], and takes its cost until it is known whether it counts,
    /// like [`Gate::hold`](crate::Gate::hold). While the store is unavailable each rule decides by its own
    /// [`OnStoreError`](crate::OnStoreError).
    ///
    /// ```no_run
    /// use tidegate::{Request, SharedGate, StoreError};
    ///
    /// async fn log_in(gate: &SharedGate, request: &Request<'_>) -> Result<&'static str, StoreError> {
    ///     let Ok(charge) = gate.hold(request).await else { return Ok("too many failed logins") };
    ///     # let is_right = true;
    ///     if is_right {
    ///         charge.release().await?;
    ///         return Ok("welcome");
    ///     }
    ///     charge.keep();
    ///     Ok("wrong password")
    /// }
    /// ```
    ///
    /// # Errors
    /// The answer that refuses; nothing is taken.
    pub async fn hold<'a>(
        &'a self,
        request: impl Into<Request<'a>>,
    ) -> Result<Charge<'a, Self>, Answer<'a>> {
        let request = request.into().reserving();
        Charge::of(self, request, self.check(request).await)
    }
}

impl<S: Store> Charge<'_, SharedGate<S>> {
    /// Gives the whole cost back, to no fewer than none used, in one atomic step, or in a cluster one for each
    /// slot.
    ///
    /// # Errors
    /// The store did not reply. The units may have been given back, unless nothing was sent.
    pub async fn release(self) -> Result<(), StoreError> {
        self.settle(0).await
    }

    /// Makes the permits of the charge last their lives from now: see [`SharedGate::renew`].
    ///
    /// # Errors
    /// The store did not reply; the permits may end when they would have.
    pub async fn renew(&self) -> Result<bool, StoreError> {
        self.gate.renew(self.request, &Taken::from(&self.answer)).await
    }

    /// Ends the charge with the actual cost of the work, for each descriptor: see [`SharedGate::settle`].
    ///
    /// # Errors
    /// The store did not reply. The request may have been settled, unless nothing was sent.
    pub async fn settle(self, actual: u64) -> Result<(), StoreError> {
        if self.answer.is_repeated() {
            return Ok(());
        }
        let Self { gate, request, answer } = self;
        gate.settle(request, &Taken::from(&answer), &[actual]).await.map(drop)
    }
}
