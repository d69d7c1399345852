//! A refusal in gRPC: a response of trailers only, `RESOURCE_EXHAUSTED` with `RetryInfo`, or
//! `UNAVAILABLE` if the shared store did not decide, or `INTERNAL` if the caller's address is not
//! known. The outgoing layer reads the same forms in responses.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{NO_PAD, STANDARD_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;
use prost_types::{Any, Duration};
use tidegate_core::Micros;

use super::refusal::{Reason, Refusal};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

const RESOURCE_EXHAUSTED: i32 = 8;
const INTERNAL: i32 = 13;
const UNAVAILABLE: i32 = 14;

/// Binary fields may be padded or not, depending on the writer.
const BINARY: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, NO_PAD.with_decode_padding_mode(DecodePaddingMode::Indifferent));

/// Characters that must be escaped in a `grpc-message`.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Duration>,
}

impl RetryInfo {
    const TYPE: &str = "type.googleapis.com/google.rpc.RetryInfo";

    fn packed(wait: Micros) -> Any {
        let info = Self { retry_delay: Some(duration(wait)) };
        Any { type_url: Self::TYPE.to_owned(), value: info.encode_to_vec() }
    }

    fn unpacked(detail: &Any) -> Option<Self> {
        let packed = (detail.type_url == Self::TYPE).then_some(&*detail.value)?;
        Self::decode(packed).ok()
    }
}

/// The media type of a gRPC request, gRPC-Web included, if it is one.
pub(super) fn content_type(headers: &HeaderMap) -> Option<&HeaderValue> {
    const GRPC: &[u8] = b"application/grpc";
    let value = headers.get(CONTENT_TYPE)?;
    let (name, rest) = value.as_bytes().split_at_checked(GRPC.len())?;
    // Before any other character it is the beginning of another type's name.
    let ends = matches!(rest.first(), None | Some(b'+' | b'-' | b';' | b' '));
    (name.eq_ignore_ascii_case(GRPC) && ends).then_some(value)
}

/// The refusal of a gRPC call whose requests are of `content_type`.
pub(super) fn response(refusal: &Refusal, content_type: HeaderValue) -> Response<Vec<u8>> {
    let message = refusal.detail();
    let wait = refusal.retry_after_micros();
    let details: Vec<Any> = wait.map(RetryInfo::packed).into_iter().collect();
    let code = match refusal.reason() {
        Reason::Unavailable => UNAVAILABLE,
        Reason::NoAddress => INTERNAL,
        _ => RESOURCE_EXHAUSTED,
    };
    let status = Status { code, message, details };
    let mut response = Response::new(Vec::new());
    let headers = response.headers_mut();
    // The media type of the request, whose suffix (`+proto`) names its encoding.
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(STATUS, code.into());
    // Characters outside of ASCII are escaped in any case.
    insert_text(headers, MESSAGE, utf8_percent_encode(&status.message, ESCAPED).to_string());
    insert_text(headers, DETAILS, STANDARD_NO_PAD.encode(status.encode_to_vec()));
    insert_text(headers, PUSHBACK, pushback_ms(wait));
    response
}

/// Returns whether a response of trailers only asks the caller to try again: `RESOURCE_EXHAUSTED` or
/// `UNAVAILABLE`.
pub(super) fn asks_to_come_later(headers: &HeaderMap) -> bool {
    headers.get(STATUS).is_some_and(|code| [&b"8"[..], b"14"].contains(&code.as_bytes()))
}

/// The wait in its `RetryInfo`, if that is readable.
pub(super) fn retry_delay(headers: &HeaderMap) -> Option<Micros> {
    let details = BINARY.decode(headers.get(DETAILS)?).ok()?;
    let status = Status::decode(&*details).ok()?;
    let delay = status.details.iter().find_map(RetryInfo::unpacked)?.retry_delay?;
    micros(delay)
}

fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(name, value);
    }
}

/// Milliseconds, rounded up; a negative number asks a client not to try again at all.
fn pushback_ms(wait: Option<Micros>) -> String {
    wait.map_or("-1".to_owned(), |wait| wait.as_micros().div_ceil(1_000).to_string())
}

fn duration(wait: Micros) -> Duration {
    const US_PER_S: u64 = 1_000_000;
    const NANOS_PER_US: u64 = 1_000;
    let us = wait.as_micros();
    Duration {
        seconds: i64::try_from(us / US_PER_S).unwrap_or(i64::MAX),
        nanos: i32::try_from(us % US_PER_S * NANOS_PER_US).unwrap_or_default(),
    }
}

/// A duration that is not negative, rounded up.
fn micros(duration: Duration) -> Option<Micros> {
    let secs = Micros::from_secs(u64::try_from(duration.seconds).ok()?);
    let nanos = u64::try_from(duration.nanos).ok()?;
    Some(Micros::from_micros(secs.as_micros().saturating_add(nanos.div_ceil(1_000))))
}

#[cfg(test)]
mod tests {
    use super::super::refusal::Reason;
    use super::*;

    fn of(content_type: &'static str) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        super::content_type(&headers).map(|_| content_type)
    }

    #[test]
    fn grpc_is_recognised_by_its_media_type() {
        let grpc = [
            "application/grpc",
            "application/grpc+proto",
            "Application/gRPC;a=b",
            "application/grpc-web+proto",
        ];
        assert!(grpc.iter().all(|name| of(name).is_some()));
        let other = ["application/grpcx", "application/json", "application/gr", ""];
        assert!(other.iter().all(|name| of(name).is_none()));
    }

    #[test]
    fn the_wait_is_exact_to_the_microsecond_and_never_early() {
        let refusal = Refusal::for_now(Reason::Limit, Micros::from_micros(2_500_001));
        let response = response(&refusal, HeaderValue::from_static("application/grpc"));
        let headers = response.headers();
        assert_eq!(headers[STATUS], "8");
        assert_eq!(headers[PUSHBACK], "2501");
        let status = Status::decode(&*STANDARD_NO_PAD.decode(&headers[DETAILS]).unwrap()).unwrap();
        assert_eq!(status.code, 8);
        assert_eq!(status.details[0].type_url, RetryInfo::TYPE);
        let info = RetryInfo::decode(&*status.details[0].value).unwrap();
        assert_eq!(info.retry_delay, Some(Duration { seconds: 2, nanos: 500_001_000 }));
        assert!(response.body().is_empty());
    }

    #[test]
    fn a_written_wait_is_read_again_padded_or_not() {
        for us in [0, 1, 2_500_001, 86_400_000_000] {
            let wait = Micros::from_micros(us);
            let refusal = Refusal::for_now(Reason::Limit, wait);
            let mut refused = response(&refusal, HeaderValue::from_static("application/grpc"));
            assert!(asks_to_come_later(refused.headers()));
            assert_eq!(retry_delay(refused.headers()), Some(wait));
            let bytes = STANDARD_NO_PAD.decode(&refused.headers()[DETAILS]).unwrap();
            let padded = base64::engine::general_purpose::STANDARD.encode(bytes);
            insert_text(refused.headers_mut(), DETAILS, padded);
            assert_eq!(retry_delay(refused.headers()), Some(wait));
        }
    }

    #[test]
    fn other_calls_and_what_can_not_be_read_tell_no_wait() {
        let mut headers = HeaderMap::new();
        assert!(!asks_to_come_later(&headers));
        for (code, asks) in [("0", false), ("5", false), ("8", true), ("14", true)] {
            headers.insert(STATUS, HeaderValue::from_static(code));
            assert_eq!(asks_to_come_later(&headers), asks, "{code}");
        }
        let backward = RetryInfo { retry_delay: Some(Duration { seconds: -1, nanos: 0 }) };
        let other =
            Any { type_url: "other".to_owned(), value: RetryInfo::packed(Micros::ZERO).value };
        let value = backward.encode_to_vec();
        let backward = Any { type_url: RetryInfo::TYPE.to_owned(), value };
        for detail in [other, backward] {
            let status = Status { code: 8, message: String::new(), details: vec![detail] };
            insert_text(&mut headers, DETAILS, STANDARD_NO_PAD.encode(status.encode_to_vec()));
            assert_eq!(retry_delay(&headers), None);
        }
        for text in ["", "?", "CAgSA", "/////w=="] {
            headers.insert(DETAILS, HeaderValue::from_static(text));
            assert_eq!(retry_delay(&headers), None, "{text:?}");
        }
    }

    #[test]
    fn never_is_no_wait_at_all() {
        assert_eq!(pushback_ms(None), "-1");
        assert_eq!(pushback_ms(Some(Micros::MAX)), "18446744073709552");
        assert_eq!(duration(Micros::MAX).seconds, 18_446_744_073_709);
    }
}
