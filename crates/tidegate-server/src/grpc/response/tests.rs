//! Envoy's own messages decode the encoded responses.

use prost_types::Value;
use prost_types::value::Kind;

use super::*;
use crate::grpc::envoy_api as envoy;
use crate::grpc::unit::Unit;

#[test]
fn a_response_is_read_by_envoy_to_its_last_field() {
    let yes = Value { kind: Some(Kind::BoolValue(true)) };
    let status = DescriptorStatus {
        code: Code::OverLimit.into(),
        current_limit: Some(RateLimitMessage {
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
        statuses: vec![status, DescriptorStatus::default()],
        response_headers_to_add: vec![field],
        dynamic_metadata: Some(Struct { fields: [("degraded".to_owned(), yes)].into() }),
    };
    let framed = sent.framed();
    let (prefix, bytes) = framed.split_at(PREFIX_BYTES);
    assert_eq!(prefix, [&[0], &u32::try_from(bytes.len()).unwrap().to_be_bytes()[..]].concat());
    let read = envoy::RateLimitResponse::decode(bytes).unwrap();
    assert_eq!(read.overall_code(), envoy::Code::OverLimit);
    let limit = read.statuses[0].current_limit.as_ref().unwrap();
    assert_eq!(limit.unit(), envoy::Unit::Week);
    let header = envoy::HeaderValue {
        key: "retry-after".to_owned(),
        value: "9".to_owned(),
        ..Default::default()
    };
    assert_eq!(read.response_headers_to_add, [header]);
    assert_eq!(read.encode_to_vec(), bytes);

    // An older reader skips the multiplier: a message of field 4 with field 1.
    let mut multiplied = sent;
    let limit = multiplied.statuses[0].current_limit.as_mut().unwrap();
    limit.unit_multiplier = Some(200);
    let bytes = multiplied.encode_to_vec();
    assert!(bytes.windows(5).any(|field| field == [0x22, 3, 0x08, 200, 1]), "{bytes:?}");
    assert_eq!(envoy::RateLimitResponse::decode(&bytes[..]), Ok(read));
}

#[test]
fn codes_and_units_have_the_numbers_of_envoy() {
    let name = |it: &dyn std::fmt::Debug| format!("{it:?}");
    for number in 0..10 {
        let code = envoy::Code::try_from(number).ok();
        let unit = envoy::Unit::try_from(number).ok();
        let ours = (Code::try_from(number).ok(), Unit::try_from(number).ok());
        assert_eq!((name(&ours.0), name(&ours.1)), (name(&code), name(&unit)), "{number}");
    }
}
