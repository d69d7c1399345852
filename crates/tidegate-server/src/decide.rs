//! The way from a request to its answer, which HTTP, gRPC and RESP take alike. The reader of a protocol makes a
//! [`Request`], [`RequestDecider`] asks the limiters and waits, counts, settles and audits, and the writer of the
//! protocol gets an answer or a [`RequestRefusal`].

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Answer, Request};

use crate::audit::{self, Audit, Changer};
use crate::counts::{ListenerCounts, RequestOutcome, ServerCounts};
use crate::limiters::{
    Limiters, RequestVerb, ReserveAnswer, SettledReservation, Unreserved, Unsettled,
};
use crate::once_a_minute::warn_of;
use crate::refusal::RequestRefusal;

/// Decides the requests of one listener.
#[derive(Debug)]
pub(crate) struct RequestDecider {
    pub(crate) limiters: Arc<Limiters>,
    /// The counts of the listener.
    pub(crate) counts: Arc<ListenerCounts>,
}

/// The result of a settle.
pub(crate) enum SettleAnswer<'a> {
    Settled(&'a SettledReservation),
    /// It is settled as soon as the store answers, unless it ends before.
    Waits {
        detail: String,
        ends_us: u64,
    },
}

impl RequestDecider {
    /// Asks these limiters, and counts for the listener that `counts` chooses.
    pub(crate) fn new(
        limiters: Arc<Limiters>,
        counts: impl FnOnce(&ServerCounts) -> &Arc<ListenerCounts>,
    ) -> Self {
        let counts = Arc::clone(counts(&limiters.counts));
        Self { limiters, counts }
    }

    /// Passes the answer to `write`, if it needs no wait for a limiter or the store. Without an answer nothing was
    /// taken, so [`Self::decide`] may ask the same. The caller counts the time, which is the same for all requests that
    /// are read together.
    #[inline]
    pub(crate) fn try_decide<T>(
        &self,
        verb: RequestVerb,
        request: &Request<'_>,
        write: impl FnOnce(&Answer<'_>) -> T,
    ) -> Option<T> {
        let answer = self.limiters.try_answer(verb, request)?;
        self.answered(verb, &answer);
        Some(write(&answer))
    }

    /// Decides, and waits as long as the rules and the request allow.
    pub(crate) async fn decide(&self, verb: RequestVerb, request: &Request<'_>) -> Answer<'_> {
        let answer = self.limiters.answer(verb, request).await;
        self.answered(verb, &answer);
        answer
    }

    #[inline]
    fn answered(&self, verb: RequestVerb, answer: &Answer<'_>) {
        // A peek is no decision.
        if verb == RequestVerb::Check {
            self.counts.answered(answer);
        }
    }

    /// Counts a request that is refused before it is decided, and warns of the mistake of its sender.
    #[cold]
    pub(crate) fn refused(&self, verb: RequestVerb, why: &RequestRefusal) {
        if verb != RequestVerb::Check {
            return;
        }
        self.counts.count(RequestOutcome::Error);
        if let Some(kind) = why.kind.warning() {
            warn_of(kind, &why.detail);
        }
    }

    /// Decides as a check, and keeps the taken units under an id for `life`, which the protocol calls `name`.
    ///
    /// # Errors
    /// Returns why there is no reservation.
    pub(crate) async fn reserve(
        &self,
        request: &Request<'_>,
        life: Option<Duration>,
        name: &str,
    ) -> Result<ReserveAnswer<'_>, RequestRefusal> {
        let read = self.counts.now();
        let reserved = self.limiters.reserve(request, life).await.map_err(|why| {
            let is_of_life = matches!(why, Unreserved::TooLong { .. });
            let why = RequestRefusal::from(why);
            let detail = if is_of_life { format!("{name}: {}", why.detail) } else { why.detail };
            RequestRefusal { detail, ..why }
        })?;
        // A refused reserve is an answer as well.
        self.counts.answered(&reserved.answer);
        self.counts.took(read, 1);
        Ok(reserved)
    }

    /// Settles a reservation for its actual cost, and passes the result to `write`.
    ///
    /// # Errors
    /// Returns why nothing was settled, or that this is unknown.
    pub(crate) async fn settle<T>(
        &self,
        by: &Changer,
        id: &str,
        actual: &[u64],
        write: impl FnOnce(SettleAnswer<'_>) -> T,
    ) -> Result<T, RequestRefusal> {
        let settling = match self.limiters.settle(id, actual).await {
            Ok(settling) => settling,
            // It is a promise, and no failure: the first settle that waits is the settle that is made.
            Err(why @ Unsettled::Pending(ends)) => {
                audit::waits(by, actual);
                let waits =
                    SettleAnswer::Waits { detail: why.to_string(), ends_us: ends.as_micros() };
                return Ok(write(waits));
            }
            Err(why) => return Err(why.into()),
        };
        match &settling.outcome.stand {
            // A repeated settle has the same result and no line: nothing was changed by it.
            Ok(settled) => {
                audit::settled(by, settling.done.as_ref());
                Ok(write(SettleAnswer::Settled(settled)))
            }
            Err(why) => Err(RequestRefusal::unavailable(format!(
                "{why}; it is unknown whether the reservation was settled"
            ))),
        }
    }

    /// Makes the permits of a reservation last their lives from now; returns whether all were still out.
    ///
    /// # Errors
    /// Returns why nothing was renewed.
    pub(crate) async fn renew(&self, by: &Changer, id: &str) -> Result<bool, RequestRefusal> {
        let renewed = self.limiters.renew(id).await?;
        audit::renewed(by, renewed);
        Ok(renewed)
    }

    /// Forgets an open reservation, whose units stay taken.
    ///
    /// # Errors
    /// Returns why there is none.
    pub(crate) async fn drop_open(&self, by: &Changer, id: &str) -> Result<(), RequestRefusal> {
        self.limiters.drop_reservation(id).await?;
        audit::dropped(by);
        Ok(())
    }

    /// Gives the cost of a request back; the answer has the values after that.
    ///
    /// # Errors
    /// Returns a refusal if the store did not reply.
    pub(crate) async fn refund(
        &self,
        by: &Changer,
        request: &Request<'_>,
    ) -> Result<Answer<'_>, RequestRefusal> {
        // The look before the change is part of the line, so it begins first.
        let audit = Audit::begin(&self.limiters, by, "refund", request, None).await;
        let refunded = self.limiters.refund(request).await;
        audit.end(request, refunded.as_ref().map(|_| None)).await;
        refunded.map_err(|error| RequestRefusal::of_change(&error))
    }

    /// Resets the limiters of a request, and returns their number. `looked` is a look at them, if the caller has it.
    ///
    /// # Errors
    /// Returns a refusal if the store did not reply.
    pub(crate) async fn reset(
        &self,
        by: &Changer,
        request: &Request<'_>,
        looked: Option<&Answer<'_>>,
    ) -> Result<usize, RequestRefusal> {
        let audit = Audit::begin(&self.limiters, by, "reset", request, looked).await;
        let reset = self.limiters.reset(request).await;
        audit.end(request, reset.as_ref().map(|count| Some(*count))).await;
        reset.map_err(|error| RequestRefusal::of_change(&error))
    }
}
