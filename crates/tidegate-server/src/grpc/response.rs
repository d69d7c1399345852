//! The bytes of a response, including its prefix.
//!
//! They are those of the crate's own messages, with the `unit_multiplier` after each
//! `current_limit`, because the crate has no field for it yet. By the rules of the encoding,
//! repeated parts of one message are one message.

use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitResponse;
use envoy_types::pb::google::protobuf::UInt32Value;
use hyper::body::Bytes;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, message};

use super::call::PREFIX_BYTES;
use super::status::StatusWithUnits;

const STATUSES: u32 = 2;
const CURRENT_LIMIT: u32 = 2;

/// The field of a `current_limit` that the crate lacks.
#[derive(Clone, PartialEq, Message)]
struct Multiplied {
    #[prost(message, optional, tag = "4")]
    unit_multiplier: Option<UInt32Value>,
}

/// A framed response with these statuses; `response` itself has none.
pub(super) fn bytes(response: &RateLimitResponse, statuses: &[StatusWithUnits]) -> Bytes {
    let length = response.encoded_len() + statuses.iter().map(framed_len).sum::<usize>();
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + length);
    bytes.extend_from_slice(&[0]);
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    response.encode_raw(&mut bytes);
    statuses.iter().for_each(|status| write(status, &mut bytes));
    bytes.into()
}

fn write(status: &StatusWithUnits, bytes: &mut Vec<u8>) {
    encode_key(STATUSES, WireType::LengthDelimited, bytes);
    encode_varint(status_len(status) as u64, bytes);
    status.status.encode_raw(bytes);
    if let Some(more) = multiplied(status) {
        message::encode(CURRENT_LIMIT, &more, bytes);
    }
}

/// Bytes of a status with its key and length before it.
fn framed_len(status: &StatusWithUnits) -> usize {
    let length = status_len(status);
    1 + encoded_len_varint(length as u64) + length
}

fn status_len(status: &StatusWithUnits) -> usize {
    let more = multiplied(status).map_or(0, |more| message::encoded_len(CURRENT_LIMIT, &more));
    status.status.encoded_len() + more
}

/// The field for a window of more than one unit.
fn multiplied(status: &StatusWithUnits) -> Option<Multiplied> {
    let value = Some(status.multiplier).filter(|multiplier| *multiplier > 1)?;
    Some(Multiplied { unit_multiplier: Some(UInt32Value { value }) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{
        Code, DescriptorStatus, RateLimit,
    };

    /// The messages of newer releases of the protocol.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Newer {
        #[prost(message, repeated, tag = "2")]
        statuses: Vec<NewerStatus>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct NewerStatus {
        #[prost(message, optional, tag = "2")]
        current_limit: Option<NewerLimit>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct NewerLimit {
        #[prost(uint32, tag = "1")]
        requests_per_unit: u32,
        #[prost(message, optional, tag = "4")]
        unit_multiplier: Option<UInt32Value>,
    }

    fn status_of(requests_per_unit: u32, multiplier: u32) -> StatusWithUnits {
        let current_limit = RateLimit { name: "per-user".to_owned(), requests_per_unit, unit: 1 };
        let status = DescriptorStatus {
            code: Code::OverLimit.into(),
            current_limit: Some(current_limit),
            ..Default::default()
        };
        StatusWithUnits { status, multiplier }
    }

    #[test]
    fn the_bytes_are_one_message_that_old_and_new_readers_understand() {
        for multiplier in [1, 2, 127, 128, u32::MAX] {
            let statuses = [status_of(5, multiplier), status_of(6, 1)];
            let response =
                RateLimitResponse { overall_code: Code::OverLimit.into(), ..Default::default() };
            let bytes = bytes(&response, &statuses);
            assert_eq!(bytes[0], 0);
            let length = u32::from_be_bytes(bytes[1..PREFIX_BYTES].try_into().unwrap());
            assert_eq!(length as usize, bytes.len() - PREFIX_BYTES);

            let old = RateLimitResponse::decode(&bytes[PREFIX_BYTES..]).unwrap();
            assert_eq!(old.overall_code(), Code::OverLimit);
            assert!(old.statuses.iter().eq(statuses.iter().map(|status| &status.status)));

            let new = Newer::decode(&bytes[PREFIX_BYTES..]).unwrap();
            let limits: Vec<_> = new.statuses.into_iter().filter_map(|s| s.current_limit).collect();
            let of = |requests_per_unit, multiplier: Option<u32>| NewerLimit {
                requests_per_unit,
                unit_multiplier: multiplier.map(|value| UInt32Value { value }),
            };
            assert_eq!(limits, [of(5, Some(multiplier).filter(|m| *m > 1)), of(6, None)]);
        }
    }
}
