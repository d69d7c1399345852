//! The request of Envoy's rate limit service, version 3, as `decide.rs` reads it. `reflection` describes the whole
//! protocol.
//!
//! The protocol demands UTF-8 of its texts, but a proxy passes on the bytes that its callers send. So texts are bytes
//! here, and bytes that are no text are written as [`key_text`] does.

use std::borrow::Cow;
use std::str;

use hyper::body::{Buf, Bytes};
use prost::bytes::BufMut;
use prost::encoding::{DecodeContext, WireType, message, uint32};
use prost::{DecodeError, Message};
use tidegate::key_text;

/// `envoy.service.ratelimit.v3.RateLimitRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) domain: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(crate) descriptors: Vec<RateLimitDescriptor>,
    #[prost(uint32, tag = "3")]
    pub(crate) hits_addend: u32,
}

/// `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitDescriptor {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<EntryMessage>,
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
pub(crate) struct EntryMessage {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
}

/// The limit that a descriptor supplies.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitOverride {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    /// An `envoy.type.v3.RateLimitUnit`.
    #[prost(int32, tag = "2")]
    pub(crate) unit: i32,
    /// The number of units of the window; absent and 0 mean 1.
    #[prost(oneof = "Multiplier", tags = "3")]
    pub(crate) unit_multiplier: Option<Multiplier>,
}

/// A `google.protobuf.UInt32Value`, or a plain number, because this field is newer than the others: no proxy that
/// sends it may be refused for its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Multiplier(pub(crate) u32);

impl Multiplier {
    /// Reads the field, in either type.
    fn merge(
        field: &mut Option<Self>,
        _: u32,
        wire_type: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        // A number that comes twice is replaced, and not added to.
        let mut units = 0;
        match wire_type {
            WireType::Varint => uint32::merge(wire_type, &mut units, from, context)?,
            _ => message::merge(wire_type, &mut units, from, context)?,
        }
        *field = Some(Self(units));
        Ok(())
    }

    fn encode(&self, to: &mut impl BufMut) {
        message::encode(3, &self.0, to);
    }

    fn encoded_len(&self) -> usize {
        message::encoded_len(3, &self.0)
    }
}

impl RateLimitRequest {
    /// Reads a message, whose bytes are texts from then on.
    ///
    /// # Errors
    /// Returns an error if a field cannot be read, or is not of the type that the protocol gives it.
    pub(super) fn read(bytes: impl Buf) -> Result<Self, DecodeError> {
        let mut message = Self::decode(bytes)?;
        escape(&mut message.domain);
        for entry in message.descriptors.iter_mut().flat_map(|descriptor| &mut descriptor.entries) {
            escape(&mut entry.key);
            escape(&mut entry.value);
        }
        Ok(message)
    }

    pub(super) fn domain(&self) -> &str {
        text(&self.domain)
    }

    /// The names and values of all descriptors, one descriptor after another.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
        all.map(|entry| (text(&entry.key), text(&entry.value)))
    }
}

fn escape(bytes: &mut Bytes) {
    if let Cow::Owned(text) = key_text(bytes) {
        *bytes = text.into();
    }
}

/// The text of bytes that were escaped if they had to be.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::envoy_api as envoy;

    #[test]
    fn a_request_of_envoy_is_read_to_its_last_field() {
        let entry = |key: &str, value: &str| envoy::Entry { key: key.into(), value: value.into() };
        let limit = envoy::RateLimitOverride { requests_per_unit: 5, unit: 7 };
        let sent = envoy::RateLimitRequest {
            domain: "edge".to_owned(),
            descriptors: vec![
                envoy::RateLimitDescriptor {
                    entries: vec![entry("user", "ann"), entry("", "ü")],
                    limit: Some(limit),
                    hits_addend: Some(u64::MAX),
                    is_negative_hits: true,
                },
                envoy::RateLimitDescriptor::default(),
            ],
            hits_addend: 3,
        };
        let read = RateLimitRequest::read(&sent.encode_to_vec()[..]).unwrap();
        assert_eq!(read.domain(), "edge");
        assert_eq!(read.entries().collect::<Vec<_>>(), [("user", "ann"), ("", "ü")]);
        assert_eq!(read.descriptors[0].hits_addend, Some(u64::MAX));
        assert_eq!(read.encode_to_vec(), sent.encode_to_vec());
    }

    #[test]
    fn a_multiplier_may_be_a_plain_number_and_the_last_one_counts() {
        let multiplier = |bytes: &[u8]| {
            let message = RateLimitRequest::read(bytes).unwrap();
            assert_eq!(RateLimitRequest::read(&message.encode_to_vec()[..]).as_ref(), Ok(&message));
            let limit = message.descriptors[0].limit.as_ref().unwrap();
            limit.unit_multiplier.map(|Multiplier(units)| units)
        };
        // Field 2 of some bytes: field 2 of some bytes: field 3, a message whose field 1 is the number, or the number.
        assert_eq!(multiplier(b"\x12\x06\x12\x04\x1a\x02\x08\x07"), Some(7));
        assert_eq!(multiplier(b"\x12\x04\x12\x02\x1a\x00"), Some(0));
        assert_eq!(multiplier(b"\x12\x04\x12\x02\x08\x05"), None);
        assert_eq!(multiplier(b"\x12\x04\x12\x02\x18\x07"), Some(7));
        assert_eq!(multiplier(b"\x12\x08\x12\x02\x18\x07\x12\x02\x18\x09"), Some(9));
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped_and_the_last_one_of_a_field_counts() {
        let read = |bytes: &[u8]| {
            let message = RateLimitRequest::read(bytes).unwrap();
            let entries = message.entries().map(|(name, value)| format!("{name}={value}"));
            (message.domain().to_owned(), entries.collect::<Vec<_>>().join(" "))
        };
        // A domain and an entry, whose name is field 1 and whose value is field 2.
        let entry = b"\x12\x08\x0a\x06\x0a\x01\xff\x12\x01a";
        assert_eq!(
            read(&[b"\x0a\x01\xfe", &entry[..]].concat()),
            (r"\xfe".into(), r"\xff=a".into())
        );
        assert_eq!(read(b"\x0a\x01\xfe\x0a\x01d"), ("d".into(), String::new()));
        assert_eq!(read(b"\x0a\x01d\x0a\x01\xfe"), (r"\xfe".into(), String::new()));
        let twice = b"\x12\x0b\x0a\x09\x0a\x01u\x12\x01\xff\x12\x01a";
        assert_eq!(read(twice), (String::new(), "u=a".into()));
        let looks_escaped = b"\x12\x0b\x0a\x09\x0a\x01u\x12\x04\\xff";
        assert_eq!(read(looks_escaped), (String::new(), r"u=\x5cxff".into()));
    }

    #[test]
    fn what_is_broken_says_where() {
        for (bytes, expected) in [
            (&[0x0a, 5, b'a'][..], "RateLimitRequest.domain: buffer underflow"),
            (&[0x08, 1], "RateLimitRequest.domain: invalid wire type"),
            (
                &[0x12, 2, 0x22, 0],
                "RateLimitDescriptor.is_negative_hits: RateLimitRequest.descriptors: invalid wire type",
            ),
        ] {
            let error = RateLimitRequest::read(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
