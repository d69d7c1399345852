//! An event as compact bytes, in memory and in temporary files.
//!
//! `cost`, `domain`, the id (empty for none), then name and value of each entry to the end of the
//! record. Numbers are written six bits at a time, low bits first, the seventh bit set on all bytes
//! but the last, so that a record is text and many are checked at once; a text is its length and its
//! bytes; names that nearly every event has are written as numbers. The sorter keeps the time next to
//! the record.

use std::fmt;

use super::event::{DEFAULT_DOMAIN, Event, LOGGED, LineEvent};

/// The bits of a number that a byte has, and the bit that says that more follow.
const DIGIT_BITS: u32 = 6;
const DIGIT: u64 = (1 << DIGIT_BITS) - 1;
const MORE: u8 = 1 << DIGIT_BITS;

/// A record that was not written by [`RecordNames::encode`]: the temporary file was damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a temporary file does not hold what was written to it")
    }
}

impl std::error::Error for Damaged {}

/// The names that records hold as numbers: the default domain, and entries of descriptors.
#[derive(Debug, Clone)]
pub(super) struct RecordNames {
    numbered: Vec<String>,
    /// True if other entries are left out.
    only: bool,
}

impl Default for RecordNames {
    /// All entries are kept.
    fn default() -> Self {
        Self { only: false, ..Self::only(LOGGED) }
    }
}

impl RecordNames {
    /// Entries of other names are left out.
    pub(super) fn only<N: Into<String>>(entries: impl IntoIterator<Item = N>) -> Self {
        let entries = entries.into_iter().map(Into::into);
        Self {
            numbered: [DEFAULT_DOMAIN.to_owned()].into_iter().chain(entries).collect(),
            only: true,
        }
    }

    /// Appends the record of an event.
    pub(super) fn encode(&self, event: &LineEvent<'_>, to: &mut Vec<u8>) {
        put_number(event.cost, to);
        put_name(self.number(&event.domain), &event.domain, to);
        put_text(event.request_id.as_deref().unwrap_or_default(), to);
        event.descriptor.iter().for_each(|(name, value)| {
            let number = self.number(name);
            if number > 0 || !self.only {
                put_name(number, name, to);
                put_text(value, to);
            }
        });
    }

    pub(super) fn decode<'a>(&'a self, at_us: u64, record: &'a str) -> Result<Event<'a>, Damaged> {
        let mut rest = record;
        let cost = take_number(&mut rest)?;
        let domain = self.take_name(&mut rest)?;
        let request_id = Some(take_text(&mut rest)?).filter(|id| !id.is_empty());
        // Access logs, the common case, have five.
        let mut descriptor = Vec::with_capacity(self.numbered.len().min(5));
        while !rest.is_empty() {
            descriptor.push((self.take_name(&mut rest)?, take_text(&mut rest)?));
        }
        Ok(Event { at_us, domain, descriptor, cost, request_id })
    }

    /// The number of a name counted from 1; 0 if it has none.
    fn number(&self, name: &str) -> u64 {
        let place = self.numbered.iter().position(|numbered| numbered == name);
        place.map_or(0, |place| place as u64 + 1)
    }

    fn take_name<'a>(&'a self, rest: &mut &'a str) -> Result<&'a str, Damaged> {
        match take_number(rest)?.checked_sub(1) {
            None => take_text(rest),
            Some(index) => {
                let name = usize::try_from(index).ok().and_then(|index| self.numbered.get(index));
                name.map(String::as_str).ok_or(Damaged)
            }
        }
    }
}

/// Writes the number of a name, and the name if that is 0.
fn put_name(number: u64, name: &str, to: &mut Vec<u8>) {
    put_number(number, to);
    if number == 0 {
        put_text(name, to);
    }
}

fn put_number(mut number: u64, to: &mut Vec<u8>) {
    while number > DIGIT {
        to.push((number & DIGIT) as u8 | MORE);
        number >>= DIGIT_BITS;
    }
    to.push(number as u8);
}

fn put_text(text: &str, to: &mut Vec<u8>) {
    put_number(text.len() as u64, to);
    to.extend_from_slice(text.as_bytes());
}

fn take_number(rest: &mut &str) -> Result<u64, Damaged> {
    let mut number = 0;
    let mut shift = 0;
    while shift < u64::BITS {
        let byte = *rest.as_bytes().first().ok_or(Damaged)?;
        // The first byte of a longer character is no digit.
        *rest = rest.get(1..).ok_or(Damaged)?;
        number |= (u64::from(byte) & DIGIT) << shift;
        if byte & MORE == 0 {
            return Ok(number);
        }
        shift += DIGIT_BITS;
    }
    Err(Damaged)
}

fn take_text<'a>(rest: &mut &'a str) -> Result<&'a str, Damaged> {
    let length = usize::try_from(take_number(rest)?).map_err(|_| Damaged)?;
    let (text, tail) = rest.split_at_checked(length).ok_or(Damaged)?;
    *rest = tail;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::event::LineEntries;
    use super::*;
    use proptest::prelude::*;

    fn any_name() -> impl Strategy<Value = String> {
        prop_oneof![".{0,200}", "ip|path|default"]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            cost in any::<u64>(),
            domain in any_name(),
            request_id in proptest::option::of(".{1,200}"),
            entries in proptest::collection::vec((any_name(), ".{0,200}"), 0..8),
        ) {
            let event = LineEvent {
                at_us: 5,
                domain: (&domain).into(),
                descriptor: LineEntries::Listed(
                    entries.iter().map(|(k, v)| (k.into(), v.into())).collect(),
                ),
                cost,
                request_id: request_id.as_deref().map(Into::into),
                of_proxy: false,
            };
            let entries = entries.iter().map(|(k, v)| (k.as_str(), v.as_str()));
            let only_ip = entries.clone().filter(|(name, _)| ["ip", "default"].contains(name));
            let all = (RecordNames::default(), entries.collect());
            for (names, descriptor) in [all, (RecordNames::only(["ip"]), only_ip.collect())] {
                let mut record = Vec::new();
                names.encode(&event, &mut record);
                let record = String::from_utf8(record).unwrap();
                let read = names.decode(5, &record).unwrap();
                let request_id = request_id.as_deref();
                let expected = Event { at_us: 5, domain: &domain, descriptor, cost, request_id };
                prop_assert_eq!(read, expected);
            }
        }

        #[test]
        fn damage_is_an_error_or_another_event_but_no_panic(
            record in prop_oneof!["[\\x00-\\x7f]{0,60}", "(?s:.{0,60})"],
        ) {
            if let Ok(event) = RecordNames::default().decode(1, &record) {
                prop_assert_eq!(event.at_us, 1);
                prop_assert!(!record.is_empty());
            }
        }
    }

    #[test]
    fn a_record_cut_short_is_damaged() {
        let names = RecordNames::default();
        let too_long = "\x7f".repeat(12);
        let damaged =
            ["", "\x01\0\x09a", "\x01\x01\0\0\x01a", "\x01\x09\0", "\u{81}\x01", &too_long];
        for record in damaged {
            assert_eq!(names.decode(1, record), Err(Damaged));
        }
    }
}
