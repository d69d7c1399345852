//! Reads the message of a call: its texts stay in its bytes, and a usual one is read without an allocation.
//!
//! The protocol demands UTF-8 of its texts, but a proxy passes on the bytes that its callers send. So they are read as
//! bytes, and those that are no text are written as [`key_text`] does.

use std::borrow::Cow;
use std::fmt;

use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use smallvec::SmallVec;
use tidegate::key_text;

/// Descriptors, and entries of all of them, that are kept without an allocation.
pub(super) const DESCRIPTORS_AT_HAND: usize = 4;
const ENTRIES_AT_HAND: usize = 8;

/// An `envoy.service.ratelimit.v3.RateLimitRequest`, as far as this server reads it. Fields that are not listed are
/// skipped, as the encoding demands, and the last one of a field that comes twice counts.
#[derive(Debug, Default)]
pub(super) struct Message<'a> {
    pub(super) domain: &'a str,
    pub(super) hits_addend: u32,
    pub(super) descriptors: SmallVec<[SentDescriptor; DESCRIPTORS_AT_HAND]>,
    /// Those of all descriptors, one after another.
    entries: SmallVec<[(&'a str, &'a str); ENTRIES_AT_HAND]>,
}

/// A text that differs from the bytes of the message, and its place there.
#[derive(Debug)]
pub(super) struct Escaped {
    place: Place,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Domain,
    /// The name of the entry with this number.
    Name(usize),
    Value(usize),
}

/// A `RateLimitDescriptor`; its entries are [`Message::entries_of`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentDescriptor {
    /// The places of its first entry, and behind its last one.
    entries: (usize, usize),
    pub(super) limit: Option<SentLimit>,
    pub(super) hits_addend: Option<u64>,
    pub(super) is_negative_hits: bool,
}

/// The limit that a descriptor supplies, a `RateLimitOverride`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentLimit {
    pub(super) requests_per_unit: u32,
    /// The number of an `envoy.type.v3.RateLimitUnit`.
    pub(super) unit: i32,
    /// 0 if it is not said.
    multiplier: u64,
}

/// Why bytes are no such message.
#[derive(Debug)]
pub(super) struct Broken(String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<DecodeError> for Broken {
    #[cold]
    fn from(error: DecodeError) -> Self {
        Self(error.to_string())
    }
}

impl<'a> Message<'a> {
    /// Reads `bytes` into this message, which is empty. (A message is too large to be returned.) Its texts that must be
    /// escaped are added to `escaped`, and stay empty here until they are [put in](Self::put).
    ///
    /// # Errors
    /// Returns an error if a field cannot be read, or is not of the type that the protocol gives it.
    pub(super) fn read(
        &mut self,
        bytes: &'a [u8],
        escaped: &mut Vec<Escaped>,
    ) -> Result<(), Broken> {
        let mut domain = Cow::Borrowed("");
        Fields(bytes).each(|number, value| {
            match number {
                1 => domain = key_text(value.bytes("domain")?),
                2 => self.add_descriptor(value.bytes("descriptors")?, escaped)?,
                3 => self.hits_addend = value.number("hits_addend")? as u32,
                _ => {}
            }
            Ok(())
        })?;
        self.domain = kept(domain, Place::Domain, escaped);
        Ok(())
    }

    /// Puts in the texts that were escaped.
    pub(super) fn put(&mut self, escaped: &'a [Escaped]) {
        for Escaped { place, text } in escaped {
            match *place {
                Place::Domain => self.domain = text,
                Place::Name(number) => {
                    self.entries.get_mut(number).into_iter().for_each(|(name, _)| *name = text);
                }
                Place::Value(number) => {
                    self.entries.get_mut(number).into_iter().for_each(|(_, value)| *value = text);
                }
            }
        }
    }

    /// The names and values of a descriptor.
    pub(super) fn entries_of(&self, descriptor: &SentDescriptor) -> &[(&'a str, &'a str)] {
        let (first, behind) = descriptor.entries;
        self.entries.get(first..behind).unwrap_or_default()
    }

    /// Returns whether a descriptor supplies a limit.
    pub(super) fn has_limits(&self) -> bool {
        self.descriptors.iter().any(|descriptor| descriptor.limit.is_some())
    }

    fn add_descriptor(
        &mut self,
        bytes: &'a [u8],
        escaped: &mut Vec<Escaped>,
    ) -> Result<(), Broken> {
        let first = self.entries.len();
        let mut descriptor = SentDescriptor::default();
        Fields(bytes).each(|number, value| {
            match number {
                1 => self.add_entry(value.bytes("entries")?, escaped)?,
                2 => descriptor.limit.get_or_insert_default().read(value.bytes("limit")?)?,
                3 => {
                    let hits = descriptor.hits_addend.get_or_insert_default();
                    wrapped(value.bytes("hits_addend")?, hits)?;
                }
                4 => descriptor.is_negative_hits = value.number("is_negative_hits")? != 0,
                _ => {}
            }
            Ok(())
        })?;
        descriptor.entries = (first, self.entries.len());
        self.descriptors.push(descriptor);
        Ok(())
    }

    fn add_entry(&mut self, bytes: &'a [u8], escaped: &mut Vec<Escaped>) -> Result<(), Broken> {
        let mut name = Cow::Borrowed("");
        let mut text = Cow::Borrowed("");
        Fields(bytes).each(|number, value| {
            match number {
                1 => name = key_text(value.bytes("key")?),
                2 => text = key_text(value.bytes("value")?),
                _ => {}
            }
            Ok(())
        })?;
        let number = self.entries.len();
        let name = kept(name, Place::Name(number), escaped);
        let text = kept(text, Place::Value(number), escaped);
        self.entries.push((name, text));
        Ok(())
    }
}

/// The text where it lies in the message; an escaped one is kept for later.
#[inline]
fn kept<'a>(text: Cow<'a, str>, place: Place, escaped: &mut Vec<Escaped>) -> &'a str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => {
            escaped.push(Escaped { place, text });
            ""
        }
    }
}

/// Reads a wrapper message of a number.
fn wrapped(bytes: &[u8], into: &mut u64) -> Result<(), Broken> {
    Fields(bytes).each(|number, value| {
        if number == 1 {
            *into = value.number("value")?;
        }
        Ok(())
    })
}

impl SentLimit {
    /// How many units the window has.
    pub(super) const fn multiplier(self) -> u64 {
        if self.multiplier == 0 { 1 } else { self.multiplier }
    }

    /// Reads a limit, or the rest of one.
    fn read(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        Fields(bytes).each(|number, value| {
            match (number, value) {
                (1, _) => self.requests_per_unit = value.number("requests_per_unit")? as u32,
                (2, _) => self.unit = value.number("unit")? as i32,
                // A number, or a message with one, which says nothing if it is broken: a newer field than the others.
                (3, Value::Number(units)) => self.multiplier = units,
                (3, Value::Bytes(bytes)) => {
                    self.multiplier = 0;
                    let _ = Fields(bytes).each(|number, value| {
                        match (number, value) {
                            (1, Value::Number(units)) => self.multiplier = units,
                            (1, _) => self.multiplier = 0,
                            _ => {}
                        }
                        Ok(())
                    });
                }
                _ => {}
            }
            Ok(())
        })
    }
}

/// The value of a field, by its type in the encoding.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

impl<'a> Value<'a> {
    fn number(self, name: &str) -> Result<u64, Broken> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) | Self::Other => Err(wrong_type(name, "a number")),
        }
    }

    fn bytes(self, name: &str) -> Result<&'a [u8], Broken> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Other => Err(wrong_type(name, "text or a message")),
        }
    }
}

#[cold]
fn wrong_type(name: &str, expected: &str) -> Broken {
    Broken(format!("`{name}` is of another type: expected {expected}"))
}

/// The fields of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Passes each field to `read`, by its number.
    #[inline]
    fn each(
        mut self,
        mut read: impl FnMut(u32, Value<'a>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        while !self.0.is_empty() {
            let (number, kind) = decode_key(&mut self.0)?;
            read(number, self.value(number, kind)?)?;
        }
        Ok(())
    }

    #[inline]
    fn value(&mut self, number: u32, kind: WireType) -> Result<Value<'a>, Broken> {
        Ok(match kind {
            WireType::Varint => Value::Number(decode_varint(&mut self.0)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.0)?;
                let length = usize::try_from(length).ok();
                let parts = length.and_then(|length| self.0.split_at_checked(length));
                let Some((bytes, rest)) = parts else {
                    return Err(Broken(format!("field {number} is longer than its message")));
                };
                self.0 = rest;
                Value::Bytes(bytes)
            }
            _ => {
                skip_field(kind, number, &mut self.0, DecodeContext::default())?;
                Value::Other
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    /// The protocol with `unit_multiplier`.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Newer {
        #[prost(string, tag = "1")]
        domain: String,
        #[prost(message, repeated, tag = "2")]
        descriptors: Vec<Descriptor>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Descriptor {
        #[prost(message, optional, tag = "2")]
        limit: Option<Limit>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Limit {
        #[prost(uint32, tag = "1")]
        requests_per_unit: u32,
        #[prost(message, optional, tag = "3")]
        unit_multiplier: Option<u32>,
    }

    fn multipliers(bytes: &[u8]) -> Vec<Option<u64>> {
        let mut message = Message::default();
        message.read(bytes, &mut Vec::new()).unwrap();
        let limits = message.descriptors.iter().map(|one| one.limit.map(SentLimit::multiplier));
        limits.collect()
    }

    #[test]
    fn each_descriptor_has_its_own_multiplier_and_1_where_none_is_said() {
        let said = [Some(10), None, Some(0), Some(u32::MAX)];
        let limit = |unit_multiplier| Some(Limit { requests_per_unit: 5, unit_multiplier });
        let descriptors = said.into_iter().map(|said| Descriptor { limit: limit(said) });
        let descriptors = descriptors.chain([Descriptor { limit: None }]).collect();
        let bytes = Newer { domain: "edge".to_owned(), descriptors }.encode_to_vec();
        let expected = [Some(10), Some(1), Some(1), Some(u64::from(u32::MAX)), None];
        assert_eq!(multipliers(&bytes), expected);
    }

    #[test]
    fn a_multiplier_may_be_a_plain_number_and_the_last_one_counts() {
        // Field 2 of some bytes: field 2 of some bytes: field 3.
        assert_eq!(multipliers(&[0x12, 4, 0x12, 2, 0x18, 7]), [Some(7)]);
        assert_eq!(multipliers(&[0x12, 6, 0x12, 4, 0x18, 7, 0x1a, 0]), [Some(1)]);
        assert_eq!(multipliers(&[0x12, 8, 0x12, 2, 0x18, 7, 0x12, 2, 0x18, 9]), [Some(9)]);
        assert_eq!(multipliers(&[0x12, 5, 0x12, 3, 0x1a, 1, 0x08]), [Some(1)], "a broken one");
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped_and_the_last_one_of_a_field_counts() {
        let read = |bytes: &[u8]| {
            let (mut escaped, mut message) = (Vec::new(), Message::default());
            message.read(bytes, &mut escaped).unwrap();
            message.put(&escaped);
            let entries = message.entries.iter().map(|(name, value)| format!("{name}={value}"));
            (message.domain.to_owned(), entries.collect::<Vec<_>>().join(" "))
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
            (&[0x0a, 5, b'a'][..], "field 1 is longer than its message"),
            (&[0x08, 1], "`domain` is of another type: expected text or a message"),
            (&[0x12, 2, 0x22, 0], "`is_negative_hits` is of another type: expected a number"),
        ] {
            let error = Message::default().read(bytes, &mut Vec::new()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
