//! Decides one call: gives back its refunds, decides its charges in one step, and reports both. `routes.rs` calls
//! [`GrpcDecider::answer`] with the bytes of the message, and gets the bytes of the response.

use hyper::body::Bytes;
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tidegate::{Answer, Request, StoreError};
use tokio::time::sleep;

use super::messages::RateLimitRequest;
use super::own_limits::OwnLimits;
use super::question::{self, GrpcQuestion};
use super::response::{Code, RateLimitResponse};
use super::undecided;
use super::{Choices, Unavailable, status};
use crate::counts::RequestOutcome;
use crate::decide::RequestDecider;
use crate::limiters::{self, RequestVerb};
use crate::otlp::Span;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::verbs::{PublicVerb, PublicVerbs};

/// Answers calls with these limiters.
pub(super) struct GrpcDecider {
    pub(super) decider: RequestDecider,
    pub(super) choices: Choices,
    /// The verbs of all clients, for a refusal.
    pub(super) verbs: PublicVerbs,
}

impl GrpcDecider {
    /// The answer to a call that is refused.
    ///
    /// # Errors
    /// Returns the refusal if it is to be answered as an error.
    #[cold]
    pub(super) fn refusal(&self, why: RequestRefusal) -> Result<Bytes, RequestRefusal> {
        undecided::refusal(self.choices.bad_request, why)
    }

    /// The answer to a message of a client that is `granted` these verbs.
    ///
    /// # Errors
    /// Returns a refusal for a refund that is not granted, and for a message that is invalid, asks for nothing, or has
    /// an impossible limit; also if the store is unavailable and the call only refunds, if a closed rule is reported as
    /// an error, and if the process stops before an admitted request may go on.
    pub(super) async fn answer(
        &self,
        message: Bytes,
        granted: PublicVerbs,
        span: Option<Span>,
    ) -> Result<Bytes, RequestRefusal> {
        let counts = &self.decider.counts;
        let read = counts.now();
        let mut counted = false;
        let answered = self.decide(message, granted, span, &mut counted).await;
        // A decision that was made is counted as such, even if an error is answered in its place.
        if counted {
            counts.took(read, 1);
        } else if answered.is_err() {
            counts.count(RequestOutcome::Error);
        }
        answered
    }

    /// Answers, and counts the decision if one is made: a refund is none.
    async fn decide(
        &self,
        message: Bytes,
        granted: PublicVerbs,
        mut span: Option<Span>,
        counted: &mut bool,
    ) -> Result<Bytes, RequestRefusal> {
        let message = RateLimitRequest::read(message).map_err(|error| {
            RefusalKind::InvalidBody.because(format!("not a RateLimitRequest: {error}"))
        })?;
        let entries = question::entries(&message)?;
        let question = GrpcQuestion::of(&message, &entries);
        if question.has_refunds() && !granted.has(PublicVerb::GrpcRefund) {
            return Err(self.no_refunds());
        }
        // Few messages have limits, and the policy is looked at for these only.
        let mut own = OwnLimits::default();
        if message.descriptors.iter().any(|descriptor| descriptor.limit.is_some()) {
            own = OwnLimits::of(&message, &question.descriptors, &self.decider.limiters.policy())?;
        }
        let question = question.under(&own);
        let (answer, refunded) = self.refund_then_check(message.domain(), &question).await?;
        let only_refunds = question.has_refunds() && question.charges().is_empty();
        if !only_refunds {
            *counted = true;
            if let Some(span) = &mut span {
                span.end(message.domain(), &answer);
            }
        }
        if answer.is_unavailable() && self.choices.unavailable == Unavailable::Error {
            return Err(undecided(answer.is_overloaded()));
        }
        // The protocol has no field for a delay, so the proxy cannot wait. The units are taken by now, and a request that
        // would leave after the end of the process never leaves.
        if !answer.delay().is_zero() {
            tokio::select! {
                () = sleep(answer.delay()) => {}
                () = self.decider.limiters.closing() => return Err(stops()),
            }
        }
        Ok(self.response(message.domain(), &question, &answer, refunded.as_ref()))
    }

    fn no_refunds(&self) -> RequestRefusal {
        let why = PublicVerb::GrpcRefund.refusal(self.verbs);
        let detail = format!("a descriptor gives hits back (is_negative_hits): {}", why.detail);
        RequestRefusal { detail, ..why }
    }

    /// Refunds come first, because the charges may need their units. A refunded descriptor takes no part in the check,
    /// and so refuses nothing; its status shows the limit right after the refund. Returns the answer to the check, and
    /// the answer to the refund if units were refunded. If nothing is charged, the first answer is the refund's.
    async fn refund_then_check<'q>(
        &self,
        domain: &str,
        question: &GrpcQuestion<'q>,
    ) -> Result<(Answer<'_>, Option<Answer<'_>>), RequestRefusal> {
        let charges = question.charges();
        let mut refunded = None;
        if question.has_refunds() {
            let refunds = question.refunds();
            match self.decider.limiters.refund(&Request::new(domain, &refunds)).await {
                Ok(answer) if charges.is_empty() => return Ok((answer, None)),
                Ok(answer) => refunded = Some(answer),
                Err(error) if charges.is_empty() => {
                    return Err(undecided(matches!(error, StoreError::Overloaded { .. })));
                }
                // The charges are decided all the same, as any request while the store is away.
                Err(error) => tracing::debug!(%error, "a refund was not given"),
            }
        }
        let request = Request::new(domain, &charges);
        Ok((self.decider.decide(RequestVerb::Check, &request).await, refunded))
    }

    /// The response: the verdict, a status for each descriptor in the order of the message, fields and metadata.
    fn response(
        &self,
        domain: &str,
        question: &GrpcQuestion<'_>,
        answer: &Answer<'_>,
        refunded: Option<&Answer<'_>>,
    ) -> Bytes {
        let charges = question.charges();
        // Without charges the only answer is the answer of the refund.
        let refunded = if charges.is_empty() { Some(answer) } else { refunded };
        // There are as many refunds at most.
        let count = question.descriptors.len();
        let refunds = refunded.into_iter();
        let refunds =
            refunds.flat_map(|answer| (0..count).map(|number| status::within(answer, number)));
        let statuses = status::of(answer, &charges);
        let statuses = question.in_order(statuses, refunds, status::unlimited);
        let code = if answer.is_allowed() { Code::Ok } else { Code::OverLimit };
        let mut metadata = metadata(answer);
        if answer.is_no_rule() {
            let named = limiters::names(&Request::new(domain, &charges));
            let reason = undecided::reason(&format!("no rule matches: {named}"));
            metadata.get_or_insert_default().fields.extend([reason]);
        }
        let response = RateLimitResponse {
            overall_code: code.into(),
            statuses,
            response_headers_to_add: self.choices.fields.of(answer),
            dynamic_metadata: metadata,
        };
        response.framed()
    }
}

fn stops() -> RequestRefusal {
    RefusalKind::Unavailable.because("the server stops before it is the turn of this request")
}

fn undecided(overloaded: bool) -> RequestRefusal {
    RefusalKind::Unavailable.because(if overloaded {
            "the store is asked for more than it decides in time, and no decision can be taken without it"
        } else {
            "the store is away, and no decision can be taken without it"
        },
    )
}

/// The metadata of an answer without the store (`degraded`, `overloaded`), and of one near the end of a limit (`near`).
fn metadata(answer: &Answer<'_>) -> Option<Struct> {
    let mut metadata = Struct::default();
    for (name, is) in [
        ("degraded", answer.is_degraded()),
        ("overloaded", answer.is_overloaded()),
        ("near", answer.is_near()),
    ] {
        if is {
            let yes = Value { kind: Some(Kind::BoolValue(true)) };
            metadata.fields.insert(name.to_owned(), yes);
        }
    }
    Some(metadata).filter(|metadata| !metadata.fields.is_empty())
}
