//! What is written is what prost writes, and what Envoy's own messages read.

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::service::ratelimit::v3 as service;
use prost_types::value::Kind;
use prost_types::{Duration, Value};
use service::rate_limit_response as response;

use super::*;
use crate::grpc::unit::Unit;

/// `envoy.service.ratelimit.v3.RateLimitResponse`.
#[derive(Clone, PartialEq, Message)]
struct RateLimitResponse {
    #[prost(enumeration = "Code", tag = "1")]
    overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    statuses: Vec<PlainStatus>,
    #[prost(message, repeated, tag = "3")]
    response_headers_to_add: Vec<HeaderValue>,
    #[prost(message, optional, tag = "6")]
    dynamic_metadata: Option<Struct>,
}

/// The status of one descriptor.
#[derive(Clone, PartialEq, Message)]
struct PlainStatus {
    #[prost(enumeration = "Code", tag = "1")]
    code: i32,
    #[prost(message, optional, tag = "2")]
    current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    duration_until_reset: Option<Duration>,
}

/// Requests in a multiple of a unit of time.
#[derive(Clone, PartialEq, Message)]
struct RateLimit {
    #[prost(uint32, tag = "1")]
    requests_per_unit: u32,
    #[prost(enumeration = "Unit", tag = "2")]
    unit: i32,
    #[prost(string, tag = "3")]
    name: String,
    /// A `google.protobuf.UInt32Value`; absent means 1.
    #[prost(message, optional, tag = "4")]
    unit_multiplier: Option<u32>,
}

/// The same status as prost has it.
fn status(one: &DescriptorStatus<'_>) -> PlainStatus {
    PlainStatus {
        code: one.code.into(),
        current_limit: one.limit.map(|(name, rate)| RateLimit {
            requests_per_unit: rate.requests,
            unit: rate.unit.into(),
            name: name.to_owned(),
            unit_multiplier: Some(rate.multiplier).filter(|multiplier| *multiplier > 1),
        }),
        limit_remaining: one.remaining,
        duration_until_reset: one
            .reset_after_s
            .map(|seconds| Duration { seconds: seconds.cast_signed(), nanos: 0 }),
    }
}

fn all_statuses() -> Vec<DescriptorStatus<'static>> {
    let numbers = [0, 1, 127, 128, u32::MAX];
    let long = "a-rule-with-a-name-of-more-than-a-hundred-and-twenty-seven-bytes-a-rule-with-a-name-of-more-than-a-\
        hundred-and-twenty-seven-bytes";
    let mut all = Vec::new();
    for (number, name) in numbers.into_iter().zip(["", "a", "per-user", long].into_iter().cycle()) {
        for (unit, code) in [(Unit::Unknown, Code::Unknown), (Unit::Week, Code::OverLimit)] {
            for multiplier in [1, 2, 200] {
                let rate = Rate { requests: number, unit, multiplier };
                let (limit, remaining) = (Some((name, rate)), number);
                let reset_after_s = Some(u64::from(number) << 31);
                all.push(DescriptorStatus { code, limit, remaining, reset_after_s });
            }
        }
    }
    all.push(DescriptorStatus { code: Code::Ok, limit: None, remaining: 0, reset_after_s: None });
    all
}

#[test]
fn a_response_is_written_as_prost_writes_it() {
    let all = all_statuses();
    let field = HeaderValue { key: "retry-after".to_owned(), value: "9".to_owned() };
    let yes = Value { kind: Some(Kind::BoolValue(true)) };
    let metadata = Struct { fields: [("degraded".to_owned(), yes)].into() };
    let each = all.chunks(1).chain([&all[..0], &all[..]]);
    for (number, statuses) in each.enumerate() {
        let (fields, metadata) = match number % 2 {
            0 => (vec![field.clone(), HeaderValue::default()], Some(metadata.clone())),
            _ => (Vec::new(), None),
        };
        let expected = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            statuses: statuses.iter().map(status).collect(),
            response_headers_to_add: fields.clone(),
            dynamic_metadata: metadata.clone(),
        };
        let code = Code::OverLimit;
        let bytes = Response { code, statuses, fields: &fields, metadata }.framed();
        let length = u32::from_be_bytes(bytes[1..PREFIX_BYTES].try_into().unwrap());
        assert_eq!((bytes[0], length as usize), (0, bytes.len() - PREFIX_BYTES));
        assert_eq!(bytes[PREFIX_BYTES..], expected.encode_to_vec(), "{statuses:?}");
    }
}

#[test]
fn a_response_is_read_by_envoy_to_its_last_field() {
    let yes = Value { kind: Some(Kind::BoolValue(true)) };
    let status = PlainStatus {
        code: Code::OverLimit.into(),
        current_limit: Some(RateLimit {
            requests_per_unit: 5,
            unit: Unit::Week.into(),
            name: "per-user".to_owned(),
            unit_multiplier: None,
        }),
        limit_remaining: 7,
        duration_until_reset: Some(Duration { seconds: 9, nanos: 0 }),
    };
    let field = HeaderValue { key: "retry-after".to_owned(), value: "9".to_owned() };
    let sent = RateLimitResponse {
        overall_code: Code::OverLimit.into(),
        statuses: vec![status, PlainStatus::default()],
        response_headers_to_add: vec![field],
        dynamic_metadata: Some(Struct { fields: [("degraded".to_owned(), yes)].into() }),
    };
    let read = service::RateLimitResponse::decode(&sent.encode_to_vec()[..]).unwrap();
    assert_eq!(read.overall_code(), response::Code::OverLimit);
    let limit = read.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!(limit.unit(), response::rate_limit::Unit::Week);
    let header = core::HeaderValue {
        key: "retry-after".to_owned(),
        value: "9".to_owned(),
        ..Default::default()
    };
    assert_eq!(read.response_headers_to_add, [header]);
    assert_eq!(read.encode_to_vec(), sent.encode_to_vec());

    // An older reader skips the multiplier: a message of field 4 with field 1.
    let mut multiplied = sent;
    let limit = multiplied.statuses[0].current_limit.as_mut().unwrap();
    limit.unit_multiplier = Some(200);
    let bytes = multiplied.encode_to_vec();
    assert!(bytes.windows(5).any(|field| field == [0x22, 3, 0x08, 200, 1]), "{bytes:?}");
    assert_eq!(service::RateLimitResponse::decode(&bytes[..]), Ok(read));
}

#[test]
fn codes_and_units_have_the_numbers_of_envoy() {
    let name = |it: &dyn std::fmt::Debug| format!("{it:?}");
    for number in 0..10 {
        let code = response::Code::try_from(number).ok();
        let unit = response::rate_limit::Unit::try_from(number).ok();
        let ours = (Code::try_from(number).ok(), Unit::try_from(number).ok());
        assert_eq!((name(&ours.0), name(&ours.1)), (name(&code), name(&unit)), "{number}");
    }
}
