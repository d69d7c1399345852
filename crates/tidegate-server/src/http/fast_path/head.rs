//! Recognizes bytes that begin with a check that the fast path can answer. It errs on one side only: a head that is
//! unusual in any way is [`Found::Other`], and hyper judges it.

use std::mem::MaybeUninit;
use std::ops::Range;

use httparse::{Header, Status};

use crate::http::media_type::is_json;
use crate::listener::{ListenerSecret, bearer};
use crate::otlp::{self, TRACEPARENT};

/// The path of checks.
pub(in super::super) const CHECK: &str = "/v1/check";
/// Most bytes of a head, and of a body. Larger ones go to hyper, where their size is bounded.
pub(super) const MOST_BYTES: usize = 4 << 10;
/// Most header fields.
const MOST_FIELDS: usize = 32;

/// The first request of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A check by an authorized client: the range of its body, and its end.
    Check { body: Range<usize>, end: usize },
    /// The beginning of a possible check.
    Part,
    /// Any other request, including an invalid one.
    Other,
}

/// The header fields so far.
#[derive(Default)]
struct HeadFields {
    length: Option<usize>,
    has_host: bool,
    /// True if the first token is right.
    is_authorized: Option<bool>,
}

/// Parses the first request of these bytes.
pub(super) fn look(bytes: &[u8], secret: Option<&ListenerSecret>) -> Found {
    let mut fields = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut head = httparse::Request::new(&mut []);
    let start = match head.parse_with_uninit_headers(bytes, &mut fields) {
        // A longer head goes to hyper, so that only hyper decides which heads are too large.
        Ok(Status::Complete(start)) if start <= MOST_BYTES => start,
        Ok(Status::Partial) if bytes.len() < MOST_BYTES => return Found::Part,
        Ok(_) | Err(_) => return Found::Other,
    };
    // HTTP/1.0 keeps a connection open only if the client asks for it.
    if (head.method, head.path, head.version) != (Some("POST"), Some(CHECK), Some(1)) {
        return Found::Other;
    }
    let mut seen = HeadFields::default();
    let usual = head.headers.iter().all(|field| seen.takes(field, secret));
    // A wrong token is refused by hyper's path, which counts it.
    let may_ask = secret.is_none() || seen.is_authorized == Some(true);
    match seen.length.filter(|length| usual && seen.has_host && may_ask && *length <= MOST_BYTES) {
        None => Found::Other,
        Some(length) if bytes.len() < start + length => Found::Part,
        Some(length) => Found::Check { body: start..start + length, end: start + length },
    }
}

impl HeadFields {
    /// Notes a header field; returns false if it asks for more than an answer.
    fn takes(&mut self, field: &Header<'_>, secret: Option<&ListenerSecret>) -> bool {
        let value = field.value;
        // Most fields are ruled out by the length of their name alone.
        match field.name.len() {
            // The host must occur once, and be an address or a name of usual letters; hyper's path
            // returns the error for others.
            4 if is(field, "host") => {
                let first = !self.has_host;
                self.has_host = !value.is_empty() && value.iter().all(|byte| is_usual(*byte));
                first && self.has_host
            }
            // Some other characters would count as spaces.
            12 if is(field, "content-type") => {
                value.is_ascii() && std::str::from_utf8(value).is_ok_and(is_json)
            }
            14 if is(field, "content-length") => {
                // A repeated length is left to hyper: a proxy that took the other length would see other requests (RFC
                // 9112, 6.3).
                let first = self.length.is_none();
                self.length = digits(value);
                first && self.length.is_some()
            }
            // The first token counts, as for hyper.
            13 if is(field, "authorization") => {
                self.is_authorized.get_or_insert_with(|| {
                    secret.zip(bearer(value)).is_some_and(|(secret, token)| secret.opens(token))
                });
                true
            }
            10 if is(field, "connection") => value.eq_ignore_ascii_case(b"keep-alive"),
            // Fields of web pages, of bodies that wait for an invitation, of other protocols, of
            // trailers, and of chunked bodies.
            6 => !is(field, "origin") && !is(field, "expect"),
            7 => !is(field, "upgrade") && !is(field, "trailer"),
            // A request of a trace needs a span, which only the way through hyper begins.
            11 if is(field, TRACEPARENT) => !otlp::is_on(),
            17 => !is(field, "transfer-encoding"),
            _ => true,
        }
    }
}

fn is(field: &Header<'_>, name: &str) -> bool {
    field.name.eq_ignore_ascii_case(name)
}

const fn is_usual(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':')
}

/// A number of a few digits without anything else.
fn digits(value: &[u8]) -> Option<usize> {
    // `parse` would accept a sign. The sum of a start and eight digits cannot overflow.
    let few = (1..=8).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| few)?.parse().ok()
}
