//! The time of an access log, `17/May/2015:10:05:03 +0000`.
//!
//! `times.rs` reads the times of access logs by it.

use super::bad_lines::BadLineReason;
use super::event::AT_US_MAX;

/// The length of such a time, in bytes.
pub(super) const TIME_BYTES: usize = 26;

/// Bytes of the date, hour and minute: `17/May/2015:10:05`.
const MINUTE_BYTES: usize = 17;
/// Bytes of the zone and the space before it: ` +0000`.
const ZONE_BYTES: usize = 6;
const SECOND_US: i64 = 1_000_000;

/// Reads times, and remembers the last minute: neighbours in a log usually share it, and the
/// calendar takes longer than the rest of a line.
#[derive(Debug, Clone, Default)]
pub(super) struct AccessTime {
    minute: [u8; MINUTE_BYTES],
    zone: [u8; ZONE_BYTES],
    start_us: Option<i64>,
}

impl AccessTime {
    /// Microseconds since the Unix epoch.
    pub(super) fn parse(&mut self, text: &[u8; TIME_BYTES]) -> Result<u64, BadLineReason> {
        let (minute, rest) = text.split_at(MINUTE_BYTES);
        let (second, zone) = rest.split_at(rest.len() - ZONE_BYTES);
        let second = second_of_minute(second).ok_or_else(not_a_time)?;
        let start_us = self.minute_start_us(minute, zone)?;
        let at_us = start_us.saturating_add(second * SECOND_US);
        u64::try_from(at_us)
            .ok()
            .filter(|at_us| *at_us <= AT_US_MAX)
            .ok_or_else(|| "the time is before 1970 or after 2255".into())
    }

    fn minute_start_us(&mut self, minute: &[u8], zone: &[u8]) -> Result<i64, BadLineReason> {
        match self.start_us {
            Some(start_us) if self.minute == minute && self.zone == zone => Ok(start_us),
            _ => {
                let start_us = calendar(minute, zone).ok_or_else(not_a_time)?;
                self.minute.copy_from_slice(minute);
                self.zone.copy_from_slice(zone);
                self.start_us = Some(start_us);
                Ok(start_us)
            }
        }
    }
}

fn not_a_time() -> BadLineReason {
    "the time is no date of the calendar, expected one such as 17/May/2015:10:05:03 +0000".into()
}

/// `:00` to `:59`; a leap second, `:60`, counts as the second before it.
fn second_of_minute(text: &[u8]) -> Option<i64> {
    match text {
        [b':', tens @ b'0'..=b'5', ones @ b'0'..=b'9'] => {
            Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
        }
        b":60" => Some(59),
        _ => None,
    }
}

/// Returns whether a text has digits for `0`, digits or spaces for `_`, letters for `a`, signs for
/// `+`, and the other bytes of a shape.
pub(super) fn has_shape(text: &[u8], shape: &[u8]) -> bool {
    text.iter().zip(shape).all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        b'_' => byte.is_ascii_digit() || *byte == b' ',
        b'a' => byte.is_ascii_alphabetic(),
        b'+' => matches!(byte, b'+' | b'-'),
        other => byte == other,
    })
}

/// The start of a minute in microseconds since the Unix epoch.
fn calendar(minute: &[u8], zone: &[u8]) -> Option<i64> {
    // The calendar is lenient, so the shape is checked here, and cached values are exact.
    let text = [minute, zone].concat();
    if !has_shape(&text, b"00/aaa/0000:00:00 +0000") {
        return None;
    }
    let parsed = jiff::fmt::strtime::parse("%d/%b/%Y:%H:%M %z", &text).ok()?;
    Some(parsed.to_timestamp().ok()?.as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<u64, String> {
        let bytes = text.as_bytes().try_into().map_err(|_| "length".to_owned())?;
        AccessTime::default().parse(bytes).map_err(|r| r.into_owned())
    }

    #[test]
    fn good_times() {
        // Seconds as `date -u -d ... +%s` gives them.
        let cases = [
            ("17/May/2015:10:05:03 +0000", 1_431_857_103),
            ("17/May/2015:10:05:03 +0200", 1_431_857_103 - 7_200),
            ("17/May/2015:10:05:03 -0730", 1_431_857_103 + 27_000),
            ("17/May/2015:10:05:03 +0545", 1_431_857_103 - 20_700),
            ("17/May/2015:10:05:03 -0000", 1_431_857_103),
            ("01/Jan/1970:00:00:00 +0000", 0),
            ("31/Dec/1969:23:00:00 -0100", 0),
            ("29/Feb/2024:23:59:59 +0000", 1_709_251_199),
            ("31/Dec/2016:23:59:60 +0000", 1_483_228_799),
            ("31/Dec/2254:23:59:59 +0000", 8_993_721_599),
        ];
        for (text, seconds) in cases {
            assert_eq!(parse(text), Ok(seconds * 1_000_000), "{text}");
        }
    }

    #[test]
    fn bad_times() {
        let calendar = "no date of the calendar";
        let cases = [
            ("30/Feb/2015:10:05:03 +0000", calendar),
            ("29/Feb/2015:10:05:03 +0000", calendar),
            ("00/May/2015:10:05:03 +0000", calendar),
            ("17/Mai/2015:10:05:03 +0000", calendar),
            ("17/May/2015:24:05:03 +0000", calendar),
            ("17/May/2015:10:60:03 +0000", calendar),
            ("17/May/2015:10:05:61 +0000", calendar),
            ("17/May/2015:10:05:0x +0000", calendar),
            ("17/May/2015:10:05:03 +9900", calendar),
            ("17/May/2015:10:05:03 +0060", calendar),
            ("17/May/2015:10:05:03  0000", calendar),
            ("17-May-2015:10:05:03 +0000", calendar),
            ("17/May/ 015:10:05:03 +0000", calendar),
            ("31/Dec/1969:23:59:59 +0000", "before 1970"),
            ("01/Jan/9998:00:00:00 +0000", "after 2255"),
            (
                "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
                calendar,
            ),
        ];
        for (text, expected) in cases {
            let reason = parse(text).unwrap_err();
            assert!(reason.contains(expected), "{text}: {reason}");
        }
    }

    #[test]
    fn the_remembered_minute_changes_no_answer() {
        let mut remembering = AccessTime::default();
        for text in [
            "17/May/2015:10:05:03 +0000",
            "17/May/2015:10:05:59 +0000",
            "17/May/2015:10:05:59 +0100",
            "17/May/2015:10:06:00 +0100",
            "30/Feb/2015:10:06:00 +0100",
            "17/May/2015:10:06:01 +0100",
        ] {
            let bytes = text.as_bytes().try_into().unwrap();
            let answer = remembering.parse(bytes).map_err(|r| r.into_owned());
            assert_eq!(answer, parse(text), "{text}");
        }
    }
}
