//! The response of Envoy's rate limit service, version 3, and its framed bytes. `decide.rs` and `undecided.rs` fill
//! it.

use hyper::body::Bytes;
use prost::{Enumeration, Message};
use prost_types::{Duration, Struct};

use super::unit::RateLimitMessage;

/// The length of a prefix: a flag, and the length of the message.
pub(super) const PREFIX_BYTES: usize = 5;

/// `envoy.service.ratelimit.v3.RateLimitResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitResponse {
    #[prost(enumeration = "Code", tag = "1")]
    pub(super) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(super) statuses: Vec<DescriptorStatus>,
    #[prost(message, repeated, tag = "3")]
    pub(super) response_headers_to_add: Vec<HeaderValue>,
    #[prost(message, optional, tag = "6")]
    pub(super) dynamic_metadata: Option<Struct>,
}

/// The status of one descriptor.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DescriptorStatus {
    #[prost(enumeration = "Code", tag = "1")]
    pub(super) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) current_limit: Option<RateLimitMessage>,
    #[prost(uint32, tag = "3")]
    pub(super) limit_remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(super) duration_until_reset: Option<Duration>,
}

/// `envoy.config.core.v3.HeaderValue`, whose value is text.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// The verdict on a request or a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Code {
    Unknown = 0,
    Ok = 1,
    OverLimit = 2,
}

impl RateLimitResponse {
    /// The bytes with their prefix.
    pub(super) fn framed(&self) -> Bytes {
        let length = self.encoded_len();
        let mut to = Vec::with_capacity(PREFIX_BYTES + length);
        // The flag of a message that is not compressed.
        to.push(0);
        to.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        self.encode_raw(&mut to);
        to.into()
    }
}

#[cfg(test)]
mod tests;
