//! The bytes of a response, including its prefix: an `envoy.service.ratelimit.v3.RateLimitResponse`.
//!
//! It is written field by field in the order of their numbers, as prost would, but from texts that it borrows.

use hyper::body::Bytes;
use prost::encoding::{encode_varint, encoded_len_varint, message};
use prost::{Enumeration, Message};
use prost_types::Struct;

use super::unit::Rate;

/// The length of a prefix: a flag, and the length of the message.
pub(super) const PREFIX_BYTES: usize = 5;

/// A response. Only the limits have texts of the rules.
pub(super) struct Response<'a> {
    pub(super) code: Code,
    pub(super) statuses: &'a [DescriptorStatus<'a>],
    pub(super) fields: &'a [HeaderValue],
    pub(super) metadata: Option<Struct>,
}

/// The status of one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorStatus<'a> {
    pub(super) code: Code,
    /// The name of the rule, and its limit.
    pub(super) limit: Option<(&'a str, Rate)>,
    pub(super) remaining: u32,
    pub(super) reset_after_s: Option<u64>,
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

impl Response<'_> {
    /// The framed bytes.
    pub(super) fn framed(&self) -> Bytes {
        let statuses: usize = self.statuses.iter().map(|one| part_bytes(one.bytes())).sum();
        let fields = message::encoded_len_repeated(3, self.fields);
        let metadata = self.metadata.as_ref().map_or(0, |it| message::encoded_len(6, it));
        let length = number_bytes(self.code as u64) + statuses + fields + metadata;
        let mut to = Vec::with_capacity(PREFIX_BYTES + length);
        to.push(0);
        to.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        number(1, self.code as u64, &mut to);
        for status in self.statuses {
            begin(2, status.bytes(), &mut to);
            status.write(&mut to);
        }
        message::encode_repeated(3, self.fields, &mut to);
        if let Some(metadata) = &self.metadata {
            message::encode(6, metadata, &mut to);
        }
        to.into()
    }
}

impl DescriptorStatus<'_> {
    fn bytes(&self) -> usize {
        let limit = self.limit.map_or(0, |(name, rate)| part_bytes(limit_bytes(name, &rate)));
        let reset = self.reset_after_s.map_or(0, |seconds| part_bytes(number_bytes(seconds)));
        number_bytes(self.code as u64) + limit + number_bytes(self.remaining.into()) + reset
    }

    fn write(&self, to: &mut Vec<u8>) {
        number(1, self.code as u64, to);
        if let Some((name, rate)) = self.limit {
            begin(2, limit_bytes(name, &rate), to);
            number(1, rate.requests.into(), to);
            number(2, rate.unit as u64, to);
            if !name.is_empty() {
                begin(3, name.len(), to);
                to.extend_from_slice(name.as_bytes());
            }
            if rate.multiplier > 1 {
                // A `google.protobuf.UInt32Value`; absent means 1.
                begin(4, number_bytes(rate.multiplier.into()), to);
                number(1, rate.multiplier.into(), to);
            }
        }
        number(3, self.remaining.into(), to);
        if let Some(seconds) = self.reset_after_s {
            begin(4, number_bytes(seconds), to);
            number(1, seconds, to);
        }
    }
}

fn limit_bytes(name: &str, rate: &Rate) -> usize {
    let name = if name.is_empty() { 0 } else { part_bytes(name.len()) };
    let multiplier = number_bytes(rate.multiplier.into());
    let multiplier = if rate.multiplier > 1 { part_bytes(multiplier) } else { 0 };
    number_bytes(rate.requests.into()) + number_bytes(rate.unit as u64) + name + multiplier
}

/// The bytes of a number in a field, whose key is one byte; none for 0.
fn number_bytes(number: u64) -> usize {
    if number == 0 { 0 } else { 1 + encoded_len_varint(number) }
}

/// The bytes of a text or a message in a field.
fn part_bytes(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

fn number(field: u8, number: u64, to: &mut Vec<u8>) {
    if number > 0 {
        to.push(field << 3);
        encode_varint(number, to);
    }
}

/// Begins a text or a message of `length` bytes.
fn begin(field: u8, length: usize, to: &mut Vec<u8>) {
    to.push(field << 3 | 2);
    encode_varint(length as u64, to);
}

#[cfg(test)]
mod tests;
