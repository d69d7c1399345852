//! An answer of the gate as an HTTP response.

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::response::Builder;
use axum::response::Response;
use serde::Serialize;
use tidegate::{Answer, Matched, Micros, headers};
use tidegate_lab::DecisionLine;

use super::problem::{Kind, Problem};

/// The body of an answer.
#[derive(Serialize)]
struct Body<'g> {
    #[serde(flatten)]
    decision: DecisionLine<'g>,
    /// No rule with a limit was enforced.
    unlimited: bool,
    /// The store was away, and the rule's own choice decided.
    degraded: bool,
    /// A rule had no room for the key: it shared a limiter with others, or was refused for that.
    overloaded: bool,
    /// What the rules in shadow mode decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shadow: Vec<Shadow<'g>>,
}

/// What a rule decided that refuses nothing.
#[derive(Serialize)]
struct Shadow<'g> {
    rule: &'g str,
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
}

impl<'g> From<&Answer<'g>> for Body<'g> {
    fn from(answer: &Answer<'g>) -> Self {
        let shadow = answer.matched().iter().filter(|m| !m.is_enforced());
        Self {
            decision: DecisionLine::from(answer),
            unlimited: answer.is_unlimited(),
            degraded: answer.is_degraded(),
            overloaded: answer.is_overloaded(),
            shadow: shadow.map(Shadow::from).collect(),
        }
    }
}

impl<'g> From<&Matched<'g>> for Shadow<'g> {
    fn from(matched: &Matched<'g>) -> Self {
        let decision = matched.decision();
        Self {
            rule: matched.rule().name(),
            allowed: decision.is_allowed(),
            limit: decision.limit,
            remaining: decision.remaining,
            retry_after_us: decision.retry_after().map(Micros::as_micros),
            reset_after_us: decision.reset_after.as_micros(),
        }
    }
}

/// The answer to a check or a peek: 200 yes, 429 no, 422 never, 503 when the store is away and a rule is
/// then closed; with the header fields for the caller.
pub(super) fn decided(answer: &Answer<'_>) -> Result<Response, Problem> {
    respond(status(answer)?, headers::of(answer), answer)
}

/// The figures alone, where nothing was asked for that could be refused.
pub(super) fn told(answer: &Answer<'_>) -> Result<Response, Problem> {
    respond(StatusCode::OK, Vec::new(), answer)
}

fn status(answer: &Answer<'_>) -> Result<StatusCode, Problem> {
    StatusCode::from_u16(headers::status(answer)).map_err(|error| unwritable(&error))
}

fn respond(
    status: StatusCode,
    fields: Vec<(&'static str, String)>,
    answer: &Answer<'_>,
) -> Result<Response, Problem> {
    let head = Response::builder().status(status);
    let head = fields.into_iter().fold(head, |head, (name, value)| head.header(name, value));
    written(head, &Body::from(answer))
}

/// A value as JSON, with status 200.
pub(super) fn json(value: &impl Serialize) -> Result<Response, Problem> {
    written(Response::builder(), value)
}

/// Nothing that is answered here may be kept: it is true for an instant.
fn written(head: Builder, value: &impl Serialize) -> Result<Response, Problem> {
    let body = serde_json::to_vec(value).map_err(|error| unwritable(&error))?;
    let response = head
        .header(CONTENT_TYPE, "application/json")
        .header(CACHE_CONTROL, "no-store")
        .body(body.into());
    response.map_err(|error| unwritable(&error))
}

fn unwritable(error: &dyn std::fmt::Display) -> Problem {
    Problem::new(Kind::Internal, format!("the answer can not be written: {error}"))
}
