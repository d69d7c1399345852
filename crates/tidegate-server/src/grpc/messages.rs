//! The request of Envoy's rate limit service, version 3, as prost reads and writes it: for tests, which send it and hold
//! what the server reads against it. Texts are bytes here, as callers of a proxy send them. `reflection` describes the
//! whole protocol.

use prost::Message;

/// `envoy.service.ratelimit.v3.RateLimitRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) domain: Vec<u8>,
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
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// The limit that a descriptor supplies, without its `unit_multiplier`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitOverride {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    /// An `envoy.type.v3.RateLimitUnit`.
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::envoy::extensions::common::ratelimit::v3 as descriptors;
    use envoy_types::pb::envoy::service::ratelimit::v3 as service;
    use envoy_types::pb::google::protobuf;

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
        assert_eq!(read.domain, b"edge");
        assert_eq!(read.descriptors[0].hits_addend, Some(u64::MAX));
        assert_eq!(read.encode_to_vec(), sent.encode_to_vec());
    }
}
