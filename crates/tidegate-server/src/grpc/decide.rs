//! One call: gives back its refunds, decides its charges in one step, and reports both.

use std::sync::Arc;

use hyper::body::Bytes;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tidegate::{Answer, Request, StoreError};
use tokio::time::sleep;
use tonic::Status;

use super::messages::{Code, DescriptorStatus, RateLimitRequest, RateLimitResponse};
use super::own_limits::OwnLimits;
use super::question::{Entries, Question};
use super::{Choices, Unavailable, response, status};
use crate::counts::Outcome;
use crate::limiters::Limiters;
use crate::otlp::Span;

/// Answers calls with these limiters.
pub(super) struct Decider {
    pub(super) limiters: Arc<Limiters>,
    pub(super) choices: Choices,
}

impl Decider {
    /// The answer to a message.
    ///
    /// # Errors
    /// Returns PERMISSION_DENIED for a refund if refunds are disabled; INVALID_ARGUMENT for a
    /// message that is invalid, asks for nothing, or has an impossible limit; UNAVAILABLE if the
    /// store is unavailable and the call only refunds, if a closed rule is reported as an error,
    /// and if the process stops before an admitted request may go on.
    pub(super) async fn answer(&self, message: Bytes, span: Option<Span>) -> Result<Bytes, Status> {
        let counts = &self.limiters.counts().grpc;
        let (read, mut counted) = (counts.now(), false);
        let answered = self.decide(message, span, &mut counted).await;
        match (counted, &answered) {
            (true, _) => counts.took(read, 1),
            (false, Err(_)) => counts.count(Outcome::Error),
            // A refund is no decision.
            (false, Ok(_)) => {}
        }
        answered
    }

    /// Answers, and counts the decision if one is made.
    async fn decide(
        &self,
        message: Bytes,
        mut span: Option<Span>,
        counted: &mut bool,
    ) -> Result<Bytes, Status> {
        let broken = |error| Status::invalid_argument(format!("not a RateLimitRequest: {error}"));
        let bytes = message;
        let message = RateLimitRequest::decode(&bytes[..]).map_err(broken)?;
        let entries = Entries::of(&message)?;
        let question = Question::of(&message, &entries);
        if self.choices.no_refunds && question.has_refunds() {
            return Err(no_refunds());
        }
        let policy = self.limiters.policy();
        let own = OwnLimits::of(&message, &bytes, &question.descriptors, &policy)?;
        let question = question.under(&own);
        let (answer, statuses) = self.refund_then_check(&message, &question).await?;
        let only_refunds = question.has_refunds() && question.charges().is_empty();
        if !only_refunds {
            self.limiters.counts().grpc.answered(&answer);
            *counted = true;
            if let Some(span) = &mut span {
                span.end(&message.domain, &answer);
            }
        }
        if answer.is_unavailable() && self.choices.unavailable == Unavailable::Error {
            return Err(undecided(answer.is_overloaded()));
        }
        // The protocol has no field for a delay, so the proxy cannot wait.
        if !answer.delay().is_zero() {
            tokio::select! {
                () = sleep(answer.delay()) => {}
                () = self.limiters.closing() => return Err(stops()),
            }
        }
        Ok(self.response(&answer, statuses))
    }

    /// Refunds come first, because the charges may need their units. A refunded descriptor takes no part in the
    /// check, and so refuses nothing; its status shows the limit right after the refund.
    async fn refund_then_check(
        &self,
        message: &RateLimitRequest,
        question: &Question<'_>,
    ) -> Result<(Answer<'_>, Vec<DescriptorStatus>), Status> {
        let (charges, mut refunded) = (question.charges(), Vec::new());
        if question.has_refunds() {
            let refunds = question.refunds();
            match self.limiters.refund(&Request::new(&message.domain, &refunds)).await {
                Ok(answer) => {
                    refunded = status::of_refunds(&answer, refunds.len());
                    if charges.is_empty() {
                        return Ok((answer, refunded));
                    }
                }
                Err(error) if charges.is_empty() => {
                    return Err(undecided(matches!(error, StoreError::Overloaded { .. })));
                }
                Err(error) => tracing::debug!(%error, "a refund was not given"),
            }
        }
        let answer = self.limiters.check(&Request::new(&message.domain, &charges)).await;
        let statuses = status::of(&answer, &charges);
        let statuses = question.in_order(statuses, refunded, status::unlimited);
        Ok((answer, statuses))
    }

    fn response(&self, answer: &Answer<'_>, statuses: Vec<DescriptorStatus>) -> Bytes {
        let code = if answer.is_allowed() { Code::Ok } else { Code::OverLimit };
        let response = RateLimitResponse {
            overall_code: code.into(),
            statuses,
            response_headers_to_add: self.choices.fields.of(answer),
            dynamic_metadata: metadata(answer),
        };
        response::framed(&response)
    }
}

fn no_refunds() -> Status {
    Status::permission_denied(
        "a descriptor gives hits back (is_negative_hits), and `grpc-refund` is not among the verbs of this \
         listener: expected a server whose `public_verbs` (--public-verbs) has it, or the admin listener (POST \
         /v1/refund)",
    )
}

fn stops() -> Status {
    Status::unavailable("the server stops before it is the turn of this request")
}

fn undecided(overloaded: bool) -> Status {
    Status::unavailable(if overloaded {
        "the store is asked for more than it decides in time, and no decision can be taken without it"
    } else {
        "the store is away, and no decision can be taken without it"
    })
}

/// The metadata of an answer without the store (`degraded`, `overloaded`), and of one near the end of a limit (`near`).
fn metadata(answer: &Answer<'_>) -> Option<Struct> {
    let flags = [
        ("degraded", answer.is_degraded()),
        ("overloaded", answer.is_overloaded()),
        ("near", answer.is_near()),
    ];
    let flags = flags.into_iter().filter(|(_, is)| *is);
    let yes = || Value { kind: Some(Kind::BoolValue(true)) };
    let fields = flags.map(|(name, _)| (name.to_owned(), yes())).collect();
    Some(Struct { fields }).filter(|metadata| !metadata.fields.is_empty())
}
