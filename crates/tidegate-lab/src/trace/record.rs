//! An event as compact bytes, in memory and in temporary files.
//!
//! The sorter keeps records, each next to its time; [`Batch`](super::Batch) makes events of them again.
//!
//! A record is `cost`, `domain`, the id (empty for none), then name and value of each entry to the end of the
//! record. In place of a name there may be a mark: for the decision that the trace has, for the limit of the present
//! descriptor, or for the next descriptor, with its cost.
//!
//! Numbers are written six bits at a time, low bits first, the seventh bit set on all bytes but the last, so that a
//! record is text and many are checked at once. A text is its length and its bytes. Names that nearly every event has
//! are written as numbers.

use std::fmt;
use std::time::Duration;

use tidegate::Limit;

use super::event::{DEFAULT_DOMAIN, Event, FurtherDescriptor, LOGGED, LineEvent, SuppliedLimit};

/// The bits of a number that a byte has, and the bit that says that more follow.
const DIGIT_BITS: u32 = 6;
const DIGIT: u64 = (1 << DIGIT_BITS) - 1;
const MORE: u8 = 1 << DIGIT_BITS;

/// Marks: numbers after the numbers of the names.
const REFUSED: u64 = 1;
const ALLOWED: u64 = 2;
const UNLIMITED: u64 = 3;
const LIMITED: u64 = 4;
const NEXT: u64 = 5;

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
        // Nearly all events have the default domain, which has a number.
        put_name(self.number(&event.domain), &event.domain, to);
        put_text(event.request_id.as_deref().unwrap_or_default(), to);
        if let Some(allowed) = event.allowed {
            self.put_mark(if allowed { ALLOWED } else { REFUSED }, to);
        }
        self.put_limit(event.limit, to);
        event.descriptor.iter().for_each(|(name, value)| self.put_entry(name, value, to));
        for one in &event.more {
            self.put_mark(NEXT, to);
            put_number(one.cost, to);
            self.put_limit(one.limit, to);
            one.entries.iter().for_each(|(name, value)| self.put_entry(name, value, to));
        }
    }

    fn put_mark(&self, mark: u64, to: &mut Vec<u8>) {
        // The numbers of names end before the marks, so both are told apart without a byte more.
        put_number(self.numbered.len() as u64 + mark, to);
    }

    fn put_limit(&self, limit: Option<SuppliedLimit>, to: &mut Vec<u8>) {
        match limit {
            None => {}
            Some(SuppliedLimit { limit: Limit::Unlimited, .. }) => self.put_mark(UNLIMITED, to),
            Some(SuppliedLimit { limit: Limit::Units(units), window }) => {
                self.put_mark(LIMITED, to);
                put_number(units, to);
                put_number(window.as_micros() as u64, to);
            }
        }
    }

    fn put_entry(&self, name: &str, value: &str, to: &mut Vec<u8>) {
        let number = self.number(name);
        if number > 0 || !self.only {
            put_name(number, name, to);
            put_text(value, to);
        }
    }

    pub(super) fn decode<'a>(&'a self, at_us: u64, record: &'a str) -> Result<Event<'a>, Damaged> {
        let mut rest = record;
        let cost = take_number(&mut rest)?;
        let domain = self.take_name(&mut rest)?;
        let request_id = Some(take_text(&mut rest)?).filter(|id| !id.is_empty());
        // Access logs, the common case, have five.
        let entries = Vec::with_capacity(self.numbered.len().min(5));
        let mut event = Event { cost, request_id, ..Event::of_one(at_us, domain, entries) };
        while !rest.is_empty() {
            let number = take_number(&mut rest)?;
            // Entries and a limit belong to the descriptor that began last.
            let (entries, limit) = match event.more.last_mut() {
                Some(last) => (&mut last.entries, &mut last.limit),
                None => (&mut event.descriptor, &mut event.limit),
            };
            // Numbers of names come out as 0, also the 0 of a name that is written out; larger numbers are marks.
            match number.saturating_sub(self.numbered.len() as u64) {
                0 => entries.push((self.name(number, &mut rest)?, take_text(&mut rest)?)),
                REFUSED => event.allowed = Some(false),
                ALLOWED => event.allowed = Some(true),
                UNLIMITED => {
                    // No limit has no window, so any window stands for it, as in NDJSON.
                    let window = Duration::from_secs(1);
                    *limit = Some(SuppliedLimit { limit: Limit::Unlimited, window });
                }
                LIMITED => {
                    let units = Limit::Units(take_number(&mut rest)?);
                    let window = Duration::from_micros(take_number(&mut rest)?);
                    *limit = Some(SuppliedLimit { limit: units, window });
                }
                NEXT => {
                    let cost = take_number(&mut rest)?;
                    event.more.push(FurtherDescriptor { entries: Vec::new(), cost, limit: None });
                }
                _ => return Err(Damaged),
            }
        }
        Ok(event)
    }

    /// The number of a name counted from 1; 0 if it has none.
    fn number(&self, name: &str) -> u64 {
        let place = self.numbered.iter().position(|numbered| numbered == name);
        place.map_or(0, |place| place as u64 + 1)
    }

    fn take_name<'a>(&'a self, rest: &mut &'a str) -> Result<&'a str, Damaged> {
        let number = take_number(rest)?;
        self.name(number, rest)
    }

    /// The name with this number, or the name that follows.
    fn name<'a>(&'a self, number: u64, rest: &mut &'a str) -> Result<&'a str, Damaged> {
        match number.checked_sub(1) {
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
    // Eleven digits hold 64 bits; a number that goes on after them is damage.
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
    use super::super::event::{LineDescriptor, LineEntries};
    use super::*;
    use proptest::prelude::*;

    fn any_name() -> impl Strategy<Value = String> {
        prop_oneof![".{0,200}", "ip|path|default"]
    }

    fn any_entries() -> impl Strategy<Value = Vec<(String, String)>> {
        proptest::collection::vec((any_name(), ".{0,200}"), 0..8)
    }

    fn any_limit() -> impl Strategy<Value = Option<SuppliedLimit>> {
        let unlimited = SuppliedLimit { limit: Limit::Unlimited, window: Duration::from_secs(1) };
        let limited = (any::<u64>(), any::<u64>()).prop_map(|(units, us)| SuppliedLimit {
            limit: Limit::Units(units),
            window: Duration::from_micros(us),
        });
        proptest::option::of(prop_oneof![Just(unlimited), limited])
    }

    /// The entries that are kept: all, or those of `only` one name and of the default domain's.
    fn kept<'e>(entries: &'e [(String, String)], only: Option<&str>) -> Vec<(&'e str, &'e str)> {
        let is_kept = |name| only.is_none_or(|only| [only, DEFAULT_DOMAIN].contains(&name));
        let entries = entries.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        entries.filter(|(name, _)| is_kept(*name)).collect()
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            cost in any::<u64>(),
            domain in any_name(),
            request_id in proptest::option::of(".{1,200}"),
            allowed in any::<Option<bool>>(),
            limit in any_limit(),
            entries in any_entries(),
            more in proptest::collection::vec((any_entries(), any::<u64>(), any_limit()), 0..3),
        ) {
            let listed = |entries: &'_ [(String, String)]| {
                entries.iter().map(|(k, v)| (k.clone().into(), v.clone().into())).collect()
            };
            let further = more.iter().map(|(entries, cost, limit)| LineDescriptor {
                entries: listed(entries),
                cost: *cost,
                limit: *limit,
            });
            let descriptor = LineEntries::Listed(listed(&entries));
            let event = LineEvent {
                limit,
                more: further.collect(),
                request_id: request_id.as_deref().map(Into::into),
                allowed,
                ..LineEvent::of_one(5, (&domain).into(), descriptor, cost)
            };
            for (names, only) in [(RecordNames::default(), None), (RecordNames::only(["ip"]), Some("ip"))] {
                let mut record = Vec::new();
                names.encode(&event, &mut record);
                let record = String::from_utf8(record).unwrap();
                let more = more.iter().map(|(entries, cost, limit)| FurtherDescriptor {
                    entries: kept(entries, only),
                    cost: *cost,
                    limit: *limit,
                });
                let expected = Event {
                    cost,
                    limit,
                    more: more.collect(),
                    request_id: request_id.as_deref(),
                    allowed,
                    ..Event::of_one(5, &domain, kept(&entries, only))
                };
                prop_assert_eq!(names.decode(5, &record).unwrap(), expected);
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
