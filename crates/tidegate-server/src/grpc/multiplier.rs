//! `unit_multiplier` of the limits in descriptors: the number of units in the window.
//!
//! It is read from the bytes, as a number or as a message with one: a field of a message would accept
//! only one of them.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

const DESCRIPTORS: u32 = 2;
const LIMIT: u32 = 2;
const UNIT_MULTIPLIER: u32 = 3;
const VALUE: u32 = 1;

#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The multipliers of all descriptors of a message, in their order; 1 by default.
pub(super) fn of(message: &[u8]) -> Vec<u64> {
    let descriptors = Fields(message).filter(|(number, _)| *number == DESCRIPTORS);
    descriptors.map(|(_, descriptor)| of_descriptor(descriptor)).collect()
}

/// Repeated parts of one message are one message: the last value applies.
fn of_descriptor(descriptor: Value<'_>) -> u64 {
    let limits = inside(descriptor, LIMIT);
    let said = limits.into_iter().flat_map(|limit| inside(limit, UNIT_MULTIPLIER));
    let number = |said| match said {
        Value::Number(number) => Some(number),
        // A wrapper message without a value is 0.
        wrapped @ Value::Bytes(_) => Some(inside(wrapped, VALUE).into_iter().last().map_or(
            0,
            |value| {
                if let Value::Number(number) = value { number } else { 0 }
            },
        )),
        Value::Other => None,
    };
    said.filter_map(number).next_back().filter(|said| *said > 0).unwrap_or(1)
}

/// The values of the fields of this number in a message.
fn inside(message: Value<'_>, number: u32) -> Vec<Value<'_>> {
    let Value::Bytes(bytes) = message else { return Vec::new() };
    Fields(bytes).filter(|(of, _)| *of == number).map(|(_, value)| value).collect()
}

/// The fields of a message, up to the first invalid one.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (number, kind) = decode_key(&mut self.0).ok()?;
        let value = match kind {
            WireType::Varint => Value::Number(decode_varint(&mut self.0).ok()?),
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut self.0).ok()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            WireType::SixtyFourBit => self.take(8).map(|_| Value::Other)?,
            WireType::ThirtyTwoBit => self.take(4).map(|_| Value::Other)?,
            // No wanted field has this type, and no field of the protocol does.
            WireType::StartGroup | WireType::EndGroup => {
                skip_field(kind, number, &mut self.0, DecodeContext::default()).ok()?;
                Value::Other
            }
        };
        Some((number, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    struct Newer {
        #[prost(string, tag = "1")]
        domain: String,
        #[prost(message, repeated, tag = "2")]
        descriptors: Vec<Descriptor>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Descriptor {
        #[prost(message, optional, tag = "2")]
        limit: Option<Limit>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct Limit {
        #[prost(uint32, tag = "1")]
        requests_per_unit: u32,
        #[prost(message, optional, tag = "3")]
        unit_multiplier: Option<u32>,
    }

    fn descriptor(unit_multiplier: Option<u32>) -> Descriptor {
        Descriptor { limit: Some(Limit { requests_per_unit: 5, unit_multiplier }) }
    }

    #[test]
    fn each_descriptor_has_its_own_multiplier_and_1_where_none_is_said() {
        let said = [Some(10), None, Some(0), Some(u32::MAX)];
        let mut descriptors: Vec<_> = said.into_iter().map(descriptor).collect();
        descriptors.push(Descriptor { limit: None });
        let bytes = Newer { domain: "edge".to_owned(), descriptors }.encode_to_vec();
        assert_eq!(of(&bytes), [10, 1, 1, u64::from(u32::MAX), 1]);
    }

    #[test]
    fn a_plain_number_will_do_and_broken_bytes_say_nothing() {
        // Field 2 of 4 bytes: field 2 of 2 bytes: field 3, a number, 7.
        assert_eq!(of(&[0x12, 4, 0x12, 2, 0x18, 7]), [7]);
        for broken in [&[0x12][..], &[0x12, 9, 0x12], &[0x12, 0xff, 0xff], &[0], &[]] {
            assert!(of(broken).is_empty(), "{broken:?}");
        }
        assert_eq!(of(&[0x12, 3, 0x12, 1, 0x18]), [1]);
    }
}
