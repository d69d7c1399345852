//! Writes an answer of the gate as an HTTP response: status, JSON and header fields. The handlers of `check.rs`,
//! `reserve.rs` and `admin.rs` end here; the fast path writes the same body through [`write()`] with a head of its own.

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use serde::Serialize;
use smallvec::SmallVec;
use tidegate::json::{DecisionLine, JsonObject};
use tidegate::{Answer, Matched, Micros, headers, printable};
use tokio::task::spawn_blocking;

use super::message::{Content, HttpResponse};
use crate::flags;
use crate::limiters::{RequestVerb, ReserveAnswer, SettledReservation};
use crate::refusal::{RefusalKind, RequestRefusal};

/// The decision of one rule.
#[derive(Serialize)]
struct RuleDecision<'a> {
    rule: &'a str,
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
}

impl<'a> From<Matched<'a>> for RuleDecision<'a> {
    fn from(matched: Matched<'a>) -> Self {
        let decision = matched.decision();
        Self {
            rule: matched.rule().name(),
            allowed: decision.is_allowed(),
            limit: decision.limit,
            remaining: decision.remaining,
            retry_after_us: decision.retry_after_micros().map(Micros::as_micros),
            // A limit of 0 has no reset.
            reset_after_us: if decision.limit > 0 { decision.reset_after.as_micros() } else { 0 },
        }
    }
}

/// A permit of a rule of `concurrency`.
#[derive(Serialize)]
struct PermitJson<'a> {
    rule: &'a str,
    token: u64,
}

impl<'a> PermitJson<'a> {
    fn of(matched: &Matched<'a>) -> Option<Self> {
        Some(Self { rule: matched.rule().name(), token: matched.token()?.as_micros() })
    }
}

/// The answer to a check: 200 for yes, 429 for no, 403 at a limit of 0, 422 for never, 503 if the store is
/// unavailable and a rule is then closed; with header fields.
pub(super) fn decided(answer: &Answer<'_>) -> Result<HttpResponse, RequestRefusal> {
    with_fields(values(answer)?, answer)
}

/// The answer to a reserve: the answer to a check, with the id of the reservation if there is any.
pub(super) fn reserved(reserved: &ReserveAnswer<'_>) -> Result<HttpResponse, RequestRefusal> {
    let mut body = Vec::with_capacity(USUAL_BYTES);
    let mut fields = begin(&reserved.answer, &mut body)?;
    if let Some(id) = reserved.reservation {
        fields.value("reservation", &id.to_string()).map_err(|error| unwritable(&error))?;
        let permits: Vec<_> = reserved.answer.matched().iter().filter_map(PermitJson::of).collect();
        if !permits.is_empty() {
            fields.value("permits", &permits).map_err(|error| unwritable(&error))?;
        }
    }
    fields.end();
    with_fields(of_json(body), &reserved.answer)
}

/// The state of the limiters when a reservation was settled for `actual`, and the units that were taken in all. With
/// `is_one`, the request gave `actual` as a single number.
pub(super) fn settled(
    settled: &SettledReservation,
    actual: &[u64],
    is_one: bool,
) -> Result<HttpResponse, RequestRefusal> {
    let mut body = Vec::with_capacity(USUAL_BYTES);
    let mut fields = settled.line().write(&mut body).map_err(|error| unwritable(&error))?;
    for (name, is) in settled.flags() {
        fields.flag(name, is);
    }
    let each = actual.iter().enumerate().map(|(index, units)| settled.shares(index, *units));
    let shares: SmallVec<[[u64; 2]; 1]> = each.collect();
    for (place, name) in ["settled", "cut"].into_iter().enumerate() {
        // Each share is a pair, which is written as two fields: place 0 is `settled`, place 1 `cut`.
        let mut values = shares.iter().filter_map(|share| share.get(place));
        // A number is answered with a number, and an array with an array, even if it has one item.
        let written = match values.next() {
            Some(value) if is_one => fields.value(name, value),
            first => fields.value(name, &first.into_iter().chain(values).collect::<Vec<_>>()),
        };
        written.map_err(|error| unwritable(&error))?;
    }
    fields.end();
    Ok(of_json(body))
}

/// A settle that waits for the store until the reservation ends.
#[derive(Serialize)]
struct PendingJson<'a> {
    pending: bool,
    ends_us: u64,
    detail: &'a str,
}

/// The answer to a settle that waits for the store until the reservation ends: 202.
pub(super) fn pending(detail: &str, ends_us: u64) -> Result<HttpResponse, RequestRefusal> {
    let mut response = json(&PendingJson { pending: true, ends_us, detail })?;
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// Adds the status and the header fields of a decision.
fn with_fields(
    mut response: HttpResponse,
    answer: &Answer<'_>,
) -> Result<HttpResponse, RequestRefusal> {
    *response.status_mut() = status(answer)?;
    for (name, value) in headers::of(answer) {
        let value = HeaderValue::from_maybe_shared(Bytes::from(value));
        response.headers_mut().insert(field(name)?, value.map_err(|error| unwritable(&error))?);
    }
    Ok(response)
}

/// The status of the answer to a check or a peek.
pub(super) fn status(answer: &Answer<'_>) -> Result<StatusCode, RequestRefusal> {
    StatusCode::from_u16(headers::status(answer)).map_err(|error| unwritable(&error))
}

/// The answer to a peek, which names every enforced rule.
pub(super) fn looked(answer: &Answer<'_>) -> Result<HttpResponse, RequestRefusal> {
    let mut body = Vec::with_capacity(USUAL_BYTES);
    write_looked(answer, &mut body)?;
    with_fields(of_json(body), answer)
}

/// Writes the body of the answer to a peek.
fn write_looked(answer: &Answer<'_>, body: &mut Vec<u8>) -> Result<(), RequestRefusal> {
    let mut fields = begin(answer, body)?;
    let enforced: Vec<_> = answer.enforced().map(RuleDecision::from).collect();
    fields.value("enforced", &enforced).map_err(|error| unwritable(&error))?;
    fields.end();
    Ok(())
}

/// Writes the body of the answer to a check.
pub(super) fn write(answer: &Answer<'_>, body: &mut Vec<u8>) -> Result<(), RequestRefusal> {
    begin(answer, body).map(JsonObject::end)
}

/// Writes that body up to its end.
fn begin<'b>(answer: &Answer<'_>, body: &'b mut Vec<u8>) -> Result<JsonObject<'b>, RequestRefusal> {
    let written = DecisionLine::from(answer).write(body);
    let mut fields = written.map_err(|error| unwritable(&error))?;
    for (name, is) in flags::of(answer) {
        fields.flag(name, is);
    }
    if answer.is_near() {
        fields.flag("near", true);
    }
    if answer.is_no_rule() {
        fields.flag("no_rule", true);
    }
    let mut shadow = answer.shadow().peekable();
    if shadow.peek().is_some() {
        let shadow: Vec<_> = shadow.map(RuleDecision::from).collect();
        fields.value("shadow", &shadow).map_err(|error| unwritable(&error))?;
    }
    Ok(fields)
}

/// The answers to a batch, in order. Their bodies contain the values that a single answer has in its status and header
/// fields.
pub(super) fn each(
    verb: RequestVerb,
    answers: &[Answer<'_>],
) -> Result<HttpResponse, RequestRefusal> {
    let mut body = Vec::with_capacity(2 + answers.len() * USUAL_BYTES);
    body.push(b'[');
    for (number, answer) in answers.iter().enumerate() {
        if number > 0 {
            body.push(b',');
        }
        match verb {
            RequestVerb::Peek => write_looked(answer, &mut body)?,
            RequestVerb::Check => write(answer, &mut body)?,
        }
    }
    body.push(b']');
    Ok(of_json(body))
}

/// The values alone, for a request that cannot be refused.
pub(super) fn values(answer: &Answer<'_>) -> Result<HttpResponse, RequestRefusal> {
    let mut body = Vec::with_capacity(USUAL_BYTES);
    write(answer, &mut body)?;
    Ok(of_json(body))
}

/// A value as JSON, with status 200, without characters that control a terminal, because it may repeat texts of
/// callers. It must not be cached, because it is valid only for an instant.
pub(super) fn json(value: &impl Serialize) -> Result<HttpResponse, RequestRefusal> {
    let text = serde_json::to_string(value).map_err(|error| unwritable(&error))?;
    Ok(of_json(printable::json(&text).into_owned().into_bytes()))
}

/// Makes a slow answer on a blocking thread, because the thread of the connection has to decide.
pub(super) async fn made_apart(
    make: impl FnOnce() -> Result<HttpResponse, RequestRefusal> + Send + 'static,
) -> Result<HttpResponse, RequestRefusal> {
    spawn_blocking(make).await.unwrap_or_else(|_| Err(RequestRefusal::panicked()))
}

pub(super) fn of_json(body: impl Into<Bytes>) -> HttpResponse {
    let mut response = HttpResponse::new(Content::Whole(body.into()));
    let fields = response.headers_mut();
    fields.reserve(USUAL_FIELDS);
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Initial space for a body and for the header fields of one decision, so that neither grows while
/// it is written.
const USUAL_BYTES: usize = 256;
const USUAL_FIELDS: usize = 10;

/// The usual names of fields as constants, so that they are not parsed each time.
pub(super) fn usual_field(name: &str) -> Option<&'static str> {
    Some(match name {
        "X-RateLimit-Limit" => "x-ratelimit-limit",
        "X-RateLimit-Remaining" => "x-ratelimit-remaining",
        "X-RateLimit-Reset" => "x-ratelimit-reset",
        "RateLimit-Policy" => "ratelimit-policy",
        "RateLimit" => "ratelimit",
        "Retry-After" => "retry-after",
        _ => return None,
    })
}

fn field(name: &'static str) -> Result<HeaderName, RequestRefusal> {
    match usual_field(name) {
        Some(name) => Ok(HeaderName::from_static(name)),
        None => HeaderName::from_bytes(name.as_bytes()).map_err(|error| unwritable(&error)),
    }
}

fn unwritable(error: &dyn std::fmt::Display) -> RequestRefusal {
    RefusalKind::Internal.because(format!("the answer cannot be written: {error}"))
}
