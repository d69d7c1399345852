//! The times of logs in all their forms: as of access logs, of ISO 8601, and seconds since the Unix epoch.
//!
//! Every format passes its text of a time here, and gets microseconds since the Unix epoch.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use memchr::memchr;

use super::access_time::{AccessTime, TIME_BYTES};
use super::bad_lines::BadLineReason;
use super::event::AT_US_MAX;

/// The bytes of `17/May/2015:10:05:03`, to which fractions and a zone may be added.
const SECOND_BYTES: usize = 20;
/// The bytes of its date, `17/May/2015`.
const DATE_BYTES: usize = 11;

/// Microseconds since the Unix epoch of a time such as `17/May/2015:10:05:03 +0000` (`access`, without a zone in UTC),
/// `2015-05-17T10:05:03.250Z` (without a zone in UTC), `1431857103.250`, or whole milli-, micro- or nanoseconds.
pub(super) fn any(text: &str, access: &mut AccessTime) -> Result<u64, BadLineReason> {
    let text = text.trim_matches(['[', ']']);
    let at_us = match text.as_bytes() {
        // `17/May/2015`: no other form has a slash there.
        bytes if bytes.get(2) == Some(&b'/') => return of_access_log(bytes, access),
        [b'0'..=b'9', ..] if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => unix(text),
        _ => iso(text),
    };
    at_us.filter(|at_us| *at_us <= AT_US_MAX).ok_or_else(|| {
        format!("the time is {text:?}, expected a time such as 2015-05-17T10:05:03Z").into()
    })
}

/// A time of a custom form, which is written as for `strftime`.
pub(super) fn of_form(form: &str, text: &str) -> Result<u64, BadLineReason> {
    let read = jiff::fmt::strtime::parse(form, text).ok();
    // A form without a zone is in UTC.
    let at =
        read.and_then(|read| read.to_timestamp().or_else(|_| in_utc(read.to_datetime()?)).ok());
    let at_us = at.and_then(|at| u64::try_from(at.as_microsecond()).ok());
    at_us
        .filter(|at_us| *at_us <= AT_US_MAX)
        .ok_or_else(|| format!("the time is {text:?}, expected the form {form:?}").into())
}

/// A time such as `17/May/2015:10:05:03.250 +0000`; the fraction and the zone may be left out.
pub(super) fn of_access_log(text: &[u8], access: &mut AccessTime) -> Result<u64, BadLineReason> {
    if let Ok(whole) = text.try_into() {
        return access.parse(whole);
    }
    let (second, rest) = text.split_at(text.len().min(SECOND_BYTES));
    let (fraction, zone) = rest.split_at(memchr(b' ', rest).unwrap_or(rest.len()));
    let zone = if zone.is_empty() { b" +0000" } else { zone };
    let fraction_us = std::str::from_utf8(fraction).ok().and_then(fraction_us);
    let whole: Result<[u8; TIME_BYTES], _> = [second, zone].concat().try_into();
    let no_time = "the time is not one such as 17/May/2015:10:05:03 +0000";
    let fraction_us = fraction_us.ok_or(no_time)?;
    let mut whole = whole.map_err(|_| no_time)?;
    // Some logs write a space between the date and the time.
    if whole[DATE_BYTES] == b' ' {
        whole[DATE_BYTES] = b':';
    }
    Ok(access.parse(&whole)? + fraction_us)
}

/// Microseconds of `.123`; none are none.
fn fraction_us(text: &str) -> Option<u64> {
    let Some(digits) = text.strip_prefix('.') else { return text.is_empty().then_some(0) };
    let are_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let places = digits.get(..digits.len().min(6)).filter(|_| are_digits)?;
    format!("{places:0<6}").parse().ok()
}

/// The number says by its size whether it counts seconds, milli-, micro- or nanoseconds.
fn unix(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let number: u64 = whole.parse().ok()?;
    let fraction_us = fraction_us(fraction)?;
    // 100,000,000 s after the epoch, in 1973, milliseconds have 12 digits, micro- 15 and nanoseconds 18: from then on
    // the digits of a number say its unit.
    match whole.len() {
        ..=11 => number.checked_mul(1_000_000)?.checked_add(fraction_us),
        12..=14 => number.checked_mul(1_000)?.checked_add(fraction_us / 1_000),
        15..=17 => Some(number),
        _ => Some(number / 1_000),
    }
}

fn iso(text: &str) -> Option<u64> {
    let with_zone = text.parse::<Timestamp>();
    let at = with_zone.or_else(|_| in_utc(text.parse()?)).ok()?;
    u64::try_from(at.as_microsecond()).ok()
}

fn in_utc(at: DateTime) -> Result<Timestamp, jiff::Error> {
    Ok(at.to_zoned(TimeZone::UTC)?.timestamp())
}

/// A time for people: UTC, to the microsecond if it has any.
pub(super) fn shown(at_us: u64) -> String {
    let at = i64::try_from(at_us).ok().and_then(|at_us| Timestamp::from_microsecond(at_us).ok());
    at.and_then(|at| at.round(Unit::Microsecond).ok())
        .map_or_else(|| format!("{at_us} us"), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_431_857_103_000_000;

    fn read(text: &str) -> Result<u64, BadLineReason> {
        any(text, &mut AccessTime::default())
    }

    #[test]
    fn times_of_every_form() {
        for (text, after_us) in [
            ("17/May/2015:10:05:03 +0000", 0),
            ("[17/May/2015:12:05:03 +0200]", 0),
            ("17/May/2015:10:05:03.655", 655_000),
            ("17/May/2015:10:05:03", 0),
            ("17/May/2015 10:05:03", 0),
            ("17/May/2015:12:05:03.25 +0200", 250_000),
            ("2015-05-17T10:05:03Z", 0),
            ("2015-05-17T10:05:03.250Z", 250_000),
            ("2015-05-17T10:05:03.123456789Z", 123_456),
            ("2015-05-17T12:05:03+02:00", 0),
            ("2015-05-17T12:05:03+0200", 0),
            ("2015-05-17 10:05:03", 0),
            ("2015-05-17T10:05:03.5", 500_000),
            ("1431857103", 0),
            ("1431857103.25", 250_000),
            ("1431857103.1234567", 123_456),
            ("1431857103250", 250_000),
            ("1431857103250000", 250_000),
            ("1431857103250000999", 250_000),
        ] {
            assert_eq!(read(text), Ok(SECOND + after_us), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_said() {
        let texts = "|-|now|17/May/2015|17/May/2015:10:05:03.|17/May/2015:10:05:03 x|17/Mai/2015:10:05:03|\
                     2015-13-17T10:05:03Z|10:05:03|1.2.3|1431857103.x|1969-12-31T23:59:59Z|99999999999";
        for text in texts.split('|') {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn forms_as_for_strftime() {
        let read = |form: &str, text: &str| of_form(form, text).ok();
        assert_eq!(read("%Y-%m-%dT%H:%M:%S%z", "2015-05-17T12:05:03+0200"), Some(SECOND));
        assert_eq!(read("%d/%b/%Y %T", "17/May/2015 10:05:03"), Some(SECOND));
        assert_eq!(read("%d/%b/%Y %T", "17-May-2015 10:05:03"), None);
    }

    #[test]
    fn shown_in_utc() {
        assert_eq!(shown(SECOND), "2015-05-17T10:05:03Z");
        assert_eq!(shown(SECOND + 250_000), "2015-05-17T10:05:03.25Z");
    }
}
