//! The messages of Envoy's rate limit service, version 3, as far as this server reads and writes them.
//!
//! Fields that are not listed are skipped, as the encoding demands. [`reflection`](super::reflection)
//! describes the whole protocol.

use prost::{Enumeration, Message};
use prost_types::{Duration, Struct};

/// `envoy.service.ratelimit.v3.RateLimitRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) descriptors: Vec<RateLimitDescriptor>,
    #[prost(uint32, tag = "3")]
    pub(crate) hits_addend: u32,
}

/// `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<Entry>,
    #[prost(message, optional, tag = "2")]
    pub(crate) limit: Option<RateLimitOverride>,
    /// A `google.protobuf.UInt64Value`.
    #[prost(message, optional, tag = "3")]
    pub(crate) hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    pub(crate) is_negative_hits: bool,
}

/// An entry of a descriptor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// The limit that a descriptor supplies. Its `unit_multiplier` is read by
/// [`multiplier`](super::multiplier).
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitOverride {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    /// An `envoy.type.v3.RateLimitUnit`, whose numbers are those of [`Unit`].
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
}

/// `envoy.service.ratelimit.v3.RateLimitResponse`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitResponse {
    #[prost(enumeration = "Code", tag = "1")]
    pub(crate) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) response_headers_to_add: Vec<HeaderValue>,
    #[prost(message, optional, tag = "6")]
    pub(crate) dynamic_metadata: Option<Struct>,
}

/// The status of one descriptor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DescriptorStatus {
    #[prost(enumeration = "Code", tag = "1")]
    pub(crate) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) current_limit: Option<RateLimit>,
    #[prost(uint32, tag = "3")]
    pub(crate) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) duration_until_reset: Option<Duration>,
}

/// Requests in a multiple of a unit of time.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimit {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(enumeration = "Unit", tag = "2")]
    pub(crate) unit: i32,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    /// A `google.protobuf.UInt32Value`; absent means 1.
    #[prost(message, optional, tag = "4")]
    pub(crate) unit_multiplier: Option<u32>,
}

/// `envoy.config.core.v3.HeaderValue`, whose value is text.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// Whether a request or a descriptor is within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Code {
    Unknown = 0,
    Ok = 1,
    OverLimit = 2,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Unit {
    Unknown = 0,
    Second = 1,
    Minute = 2,
    Hour = 3,
    Day = 4,
    Month = 5,
    Year = 6,
    Week = 7,
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::envoy::config::core::v3 as core;
    use envoy_types::pb::envoy::extensions::common::ratelimit::v3 as descriptors;
    use envoy_types::pb::envoy::service::ratelimit::v3 as service;
    use envoy_types::pb::google::protobuf;
    use prost_types::Value;
    use prost_types::value::Kind;
    use service::rate_limit_response as response;

    #[test]
    fn a_request_of_envoy_is_read_to_its_last_field() {
        let entry = |key: &str, value: &str| descriptors::rate_limit_descriptor::Entry {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        let limit =
            descriptors::rate_limit_descriptor::RateLimitOverride { requests_per_unit: 5, unit: 7 };
        let sent = service::RateLimitRequest {
            domain: "edge".to_owned(),
            descriptors: vec![
                descriptors::RateLimitDescriptor {
                    entries: vec![entry("user", "ann"), entry("", "ü")],
                    limit: Some(limit),
                    hits_addend: Some(protobuf::UInt64Value { value: u64::MAX }),
                    is_negative_hits: true,
                },
                descriptors::RateLimitDescriptor::default(),
            ],
            hits_addend: 3,
        };
        let read = RateLimitRequest::decode(&sent.encode_to_vec()[..]).unwrap();
        assert_eq!(read.domain, "edge");
        assert_eq!(read.descriptors[0].hits_addend, Some(u64::MAX));
        assert_eq!(read.encode_to_vec(), sent.encode_to_vec());
    }

    #[test]
    fn a_response_is_read_by_envoy_to_its_last_field() {
        let yes = Value { kind: Some(Kind::BoolValue(true)) };
        let status = DescriptorStatus {
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
            statuses: vec![status, DescriptorStatus::default()],
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
}
