//! The bytes of a response, including its prefix.

use hyper::body::Bytes;
use prost::Message;

use super::call::PREFIX_BYTES;
use super::messages::RateLimitResponse;

/// A framed response.
pub(super) fn framed(response: &RateLimitResponse) -> Bytes {
    let length = response.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + length);
    bytes.extend_from_slice(&[0]);
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    response.encode_raw(&mut bytes);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::messages::{Code, DescriptorStatus};

    #[test]
    fn the_prefix_says_how_long_the_message_is() {
        for descriptors in [0, 1, 63] {
            let statuses = vec![DescriptorStatus::default(); descriptors];
            let overall_code = Code::OverLimit.into();
            let response = RateLimitResponse { overall_code, statuses, ..Default::default() };
            let bytes = framed(&response);
            let length = u32::from_be_bytes(bytes[1..PREFIX_BYTES].try_into().unwrap());
            assert_eq!((bytes[0], length as usize), (0, bytes.len() - PREFIX_BYTES));
            assert_eq!(RateLimitResponse::decode(&bytes[PREFIX_BYTES..]), Ok(response));
        }
    }
}
