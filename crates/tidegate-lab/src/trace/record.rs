//! An event as compact bytes, in memory and in temporary files.
//!
//! `cost`, `domain`, the id (empty for none), then name and value of each entry to the end of the
//! record. Numbers are written seven bits at a time, low bits first, the high bit set on all bytes
//! but the last; a text is its length and its bytes. The sorter keeps the time beside the record.

use std::fmt;

use super::event::{Event, LineEvent};

/// A record that was not written by [`encode`]: the temporary file was damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a temporary file does not hold what was written to it")
    }
}

impl std::error::Error for Damaged {}

/// Appends the record of an event.
pub(super) fn encode(event: &LineEvent<'_>, to: &mut Vec<u8>) {
    put_number(event.cost, to);
    put_text(&event.domain, to);
    put_text(event.request_id.as_deref().unwrap_or_default(), to);
    for (name, value) in &event.descriptor {
        put_text(name, to);
        put_text(value, to);
    }
}

pub(super) fn decode(at_us: u64, record: &[u8]) -> Result<Event, Damaged> {
    let mut rest = record;
    let cost = take_number(&mut rest)?;
    let domain = take_text(&mut rest)?;
    let request_id = Some(take_text(&mut rest)?).filter(|id| !id.is_empty());
    // Access logs, the common case, have five.
    let mut descriptor = Vec::with_capacity(5);
    while !rest.is_empty() {
        descriptor.push((take_text(&mut rest)?, take_text(&mut rest)?));
    }
    Ok(Event { at_us, domain, descriptor, cost, request_id })
}

fn put_number(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn put_text(text: &str, to: &mut Vec<u8>) {
    put_number(text.len() as u64, to);
    to.extend_from_slice(text.as_bytes());
}

fn take_number(rest: &mut &[u8]) -> Result<u64, Damaged> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or(Damaged)?;
        *rest = tail;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Damaged)
}

fn take_text(rest: &mut &[u8]) -> Result<String, Damaged> {
    let length = usize::try_from(take_number(rest)?).map_err(|_| Damaged)?;
    let (text, tail) = rest.split_at_checked(length).ok_or(Damaged)?;
    *rest = tail;
    std::str::from_utf8(text).map(str::to_owned).map_err(|_| Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(
            cost in any::<u64>(),
            domain in ".{0,200}",
            request_id in proptest::option::of(".{1,200}"),
            entries in proptest::collection::vec((".{0,5}", ".{0,200}"), 0..8),
        ) {
            let event = LineEvent {
                at_us: 5,
                domain: (&domain).into(),
                descriptor: entries.iter().map(|(k, v)| (k.into(), v.into())).collect(),
                cost,
                request_id: request_id.as_deref().map(Into::into),
            };
            let mut record = Vec::new();
            encode(&event, &mut record);
            let read = decode(5, &record).unwrap();
            prop_assert_eq!(read, Event { at_us: 5, domain, descriptor: entries, cost, request_id });
        }

        #[test]
        fn damage_is_an_error_or_another_event_but_no_panic(
            record in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            if let Ok(event) = decode(1, &record) {
                prop_assert_eq!(event.at_us, 1);
                prop_assert!(!record.is_empty());
            }
        }
    }

    #[test]
    fn a_record_cut_short_is_damaged() {
        assert_eq!(decode(1, &[]), Err(Damaged));
        assert_eq!(decode(1, &[1, 9, b'a']), Err(Damaged));
        assert_eq!(decode(1, &[1, 0, 0, 1, b'a']), Err(Damaged));
        assert_eq!(decode(1, &[0xff; 12]), Err(Damaged));
    }
}
