//! Writes a refusal as `application/problem+json` (RFC 9457). Every handler over HTTP returns a [`RequestRefusal`] for
//! a request that it cannot answer, and `routes.rs` turns it into a response.

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use serde::Serialize;
use tidegate::printable;

use super::message::HttpResponse;
use crate::refusal::{PlacedMistake, Position, RequestRefusal};

/// The header fields of every problem.
const FIELDS: [(HeaderName, &str); 2] =
    [(CONTENT_TYPE, "application/problem+json"), (CACHE_CONTROL, "no-store")];

impl RequestRefusal {
    /// The response with this problem.
    pub(super) fn into_response(self) -> HttpResponse {
        let mut response = HttpResponse::new(self.document().into());
        *response.status_mut() = self.status();
        let fields = FIELDS.map(|(name, value)| (name, HeaderValue::from_static(value)));
        response.headers_mut().extend(fields.into_iter().chain(self.field.map(|field| *field)));
        response
    }

    /// The body of that response.
    pub(super) fn document(&self) -> Vec<u8> {
        let (name, title) = self.kind.names();
        let document = ProblemJson {
            r#type: format!("urn:problem-type:tidegate:{name}"),
            title,
            status: self.status().as_u16(),
            detail: &self.detail,
            position: self.position,
            mistakes: self.mistakes.as_deref(),
        };
        // Texts and numbers always serialize. A detail may repeat bytes of a caller, so `printable` escapes control
        // characters.
        let text = serde_json::to_string(&document).unwrap_or_default();
        printable::json(&text).into_owned().into_bytes()
    }
}

/// The document of a problem.
#[derive(Serialize)]
struct ProblemJson<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(flatten)]
    position: Option<Position>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mistakes: Option<&'a [PlacedMistake]>,
}
