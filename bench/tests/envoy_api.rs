//! The messages with which the server is tested are Envoy's own, field by field. They are compared here because Envoy's
//! own take longer to build than the server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../crates/tidegate-server/tests/server/envoy_api.rs"]
mod envoy_api;

use envoy_api::*;
use envoy_types::pb::envoy::service::ratelimit::v3 as service;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Duration, Struct, Value};
use service::rate_limit_response as response;

/// The bytes once Envoy's own message has read and written them: it leaves out each field that it does not know.
fn through<T: Message + Default>(message: &impl Message) -> Vec<u8> {
    T::decode(&message.encode_to_vec()[..]).unwrap().encode_to_vec()
}

#[test]
fn every_field_of_a_request_is_envoys() {
    let entry = Entry { key: "user".to_owned(), value: "ada".to_owned() };
    let descriptor = RateLimitDescriptor {
        entries: vec![entry],
        limit: Some(RateLimitOverride { requests_per_unit: 5, unit: Unit::Week.into() }),
        hits_addend: Some(u64::MAX),
        is_negative_hits: true,
    };
    let request = RateLimitRequest {
        domain: "edge".to_owned(),
        descriptors: vec![descriptor],
        hits_addend: u32::MAX,
    };
    assert_eq!(through::<service::RateLimitRequest>(&request), request.encode_to_vec());
}

#[test]
fn every_field_of_a_response_is_envoys() {
    let status = DescriptorStatus {
        code: Code::OverLimit.into(),
        current_limit: Some(RateLimit {
            requests_per_unit: 5,
            unit: Unit::Month.into(),
            name: "per-user".to_owned(),
        }),
        limit_remaining: 7,
        duration_until_reset: Some(Duration { seconds: 9, nanos: 1 }),
    };
    let field = HeaderValue {
        key: "retry-after".to_owned(),
        value: "9".to_owned(),
        raw_value: b"9".to_vec(),
    };
    let text = Value { kind: Some(Kind::StringValue("why".to_owned())) };
    let answer = RateLimitResponse {
        overall_code: Code::OverLimit.into(),
        statuses: vec![status],
        response_headers_to_add: vec![field],
        dynamic_metadata: Some(Struct { fields: [("reason".to_owned(), text)].into() }),
    };
    assert_eq!(through::<service::RateLimitResponse>(&answer), answer.encode_to_vec());
}

#[test]
fn codes_and_units_have_envoys_numbers() {
    for number in 0..10 {
        let ours = (Code::try_from(number).ok(), Unit::try_from(number).ok());
        let code = response::Code::try_from(number).ok();
        let unit = response::rate_limit::Unit::try_from(number).ok();
        assert_eq!(format!("{ours:?}"), format!("{:?}", (code, unit)), "{number}");
    }
}
