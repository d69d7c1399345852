//! Lengths of time as text: `"250ms"`, `"60s"`.
//!
//! Windows, waits and deadlines are written so. An error suggests the length that may be meant.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use super::shown;
use super::value_error::ValueError;
use crate::time::Shown;

/// A day in microseconds.
const DAY_US: u64 = 86_400_000_000;

/// The days to write in place of a month, which is no length of its own.
const MONTH_DAYS: u64 = 30;

/// All units.
const UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", DAY_US),
];

/// Other spellings, for hints only.
const SPELLINGS: [(&[&str], u64); 9] = [
    (&["us", "µs", "μs", "usec", "usecs", "micro", "micros", "microsecond", "microseconds"], 1),
    (&["ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds"], 1_000),
    (&["", "s", "sec", "secs", "second", "seconds"], 1_000_000),
    (&["m", "min", "mins", "minute", "minutes"], 60_000_000),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600_000_000),
    (&["d", "day", "days"], DAY_US),
    (&["w", "week", "weeks"], 7 * DAY_US),
    (&["mo", "mon", "month", "months"], MONTH_DAYS * DAY_US),
    (&["y", "year", "years"], 365 * DAY_US),
];

const EXPECTED: &str = "expected a whole number and one of us, ms, s, m, h, d, such as \"60s\"";
/// Longer texts are not searched for what they may have meant.
const LONGEST_MEANT: usize = 64;

/// Reads a length of time: a whole number directly followed by `us`, `ms`, `s`, `m`, `h` or `d`.
///
/// `"0s"` is a length; its caller decides whether it makes sense.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::text::parse_duration;
///
/// assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
/// assert_eq!(
///     parse_duration("1.5 sec").unwrap_err().to_string(),
///     "\"1.5 sec\" is not a length of time: expected a whole number and one of us, ms, s, m, h, d, \
///      such as \"60s\"; did you mean \"1500ms\"?"
/// );
/// ```
///
/// # Errors
/// For any other text, and for lengths beyond a u64 of microseconds.
pub fn parse_duration(text: &str) -> Result<Duration, ValueError> {
    let (digits, unit) = split_number(text, |c| c.is_ascii_digit());
    let unit_us = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, us)| *us);
    let Some(unit_us) = unit_us.filter(|_| !digits.is_empty()) else {
        return Err(not_a_length(text));
    };
    let number: Option<u64> = digits.parse().ok();
    let length_us = number.and_then(|number| number.checked_mul(unit_us));
    length_us.map(Duration::from_micros).ok_or_else(|| {
        ValueError::new(format!(
            "\"{}\" is longer than can be counted in microseconds: expected at most \"366d\"",
            shown(text)
        ))
    })
}

fn not_a_length(text: &str) -> ValueError {
    let meant = match minutes_or_months(text) {
        Some((minutes, days)) => Some(format!(
            "; did you mean \"{minutes}\", minutes, or \"{days}\", months of 30 days?"
        )),
        None => meant(text).map(|length| format!("; did you mean \"{length}\"?")),
    };
    ValueError::new(format!(
        "\"{}\" is not a length of time: {EXPECTED}{}",
        shown(text),
        meant.unwrap_or_default()
    ))
}

/// The lengths that a text may have meant whose unit is `M`: minutes for some, months for others.
pub(super) fn minutes_or_months(text: &str) -> Option<(String, String)> {
    let number: u64 = match text.strip_suffix('M')?.trim_end() {
        "" => 1,
        digits => digits.parse().ok()?,
    };
    Some((format!("{number}m"), format!("{}d", number.checked_mul(MONTH_DAYS)?)))
}

/// The length that another text may have meant, as it should be written: `1 sec` is `1s`, `60` is
/// `60s`, `1.5s` is `1500ms`, `1h30m` is `90m`.
pub fn meant(text: &str) -> Option<String> {
    if text.len() > LONGEST_MEANT {
        return None;
    }
    let text = spaceless(text);
    let (number, unit) = split_number(&text, |c| c.is_ascii_digit());
    let whole = number.parse::<u64>().ok().filter(|number| *number > 0);
    let unit = spelled(unit).and_then(|us| UNITS.iter().find(|(_, other)| *other == us));
    // A whole number of a unit keeps its unit; everything else is a sum in the largest unit that is exact.
    match (whole, unit) {
        (Some(number), Some((unit, _))) => Some(format!("{number}{unit}")),
        _ => sum(&text).map(|length| Shown(length).to_string()),
    }
}

/// The sum of a text of numbers and spelled units.
fn sum(mut text: &str) -> Option<Duration> {
    let mut sum_us: u64 = 0;
    while !text.is_empty() {
        let (number, rest) = split_number(text, |c| c.is_ascii_digit() || c == '.');
        let (unit, rest) = split_number(rest, char::is_alphabetic);
        sum_us = sum_us.checked_add(scaled(number, spelled(unit)?)?)?;
        text = rest;
    }
    (sum_us > 0).then(|| Duration::from_micros(sum_us))
}

/// The text in lower case, without blanks and underscores.
pub fn spaceless(text: &str) -> String {
    let kept = text.chars().filter(|c| !c.is_whitespace() && *c != '_');
    kept.flat_map(char::to_lowercase).collect()
}

/// The longest prefix of characters that belong, and the rest.
pub fn split_number(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

fn spelled(unit: &str) -> Option<u64> {
    SPELLINGS.iter().find(|(names, _)| names.contains(&unit)).map(|(_, us)| *us)
}

/// `number` times `unit_us`; `None` unless it is whole.
fn scaled(number: &str, unit_us: u64) -> Option<u64> {
    let (thousandfold, scale) = decimal(number)?;
    let us = thousandfold.checked_mul(u128::from(unit_us))?;
    // A part below a microsecond cannot be written, so there is no length to suggest.
    us.is_multiple_of(scale).then(|| u64::try_from(us / scale).ok()).flatten()
}

/// A decimal as a fraction: `1.25` is 125 / 100.
pub fn decimal(number: &str) -> Option<(u128, u128)> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let scale = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    format!("{whole}{part}").parse().ok().map(|digits| (digits, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        let read = ["7us", "7ms", "7s", "7m", "7h", "7d"].map(|text| parse_duration(text).unwrap());
        let us = read.map(|length| length.as_micros());
        assert_eq!(us, [7, 7_000, 7_000_000, 420_000_000, 25_200_000_000, 604_800_000_000]);
    }

    #[test]
    fn the_length_that_was_meant_is_suggested() {
        let hints = [
            ("1 sec", "1s"),
            ("1.5s", "1500ms"),
            ("10 m", "10m"),
            ("1min", "1m"),
            ("1S", "1s"),
            ("60", "60s"),
            ("90 sec", "90s"),
            ("1.5", "1500ms"),
            ("1h30m", "90m"),
            ("1_000ms", "1000ms"),
            ("2 weeks", "14d"),
            ("1 month", "30d"),
            ("2mo", "60d"),
        ];
        for (text, length) in hints {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.ends_with(&format!("did you mean \"{length}\"?")), "{text}: {error}");
        }
    }

    /// The hint for a limit of a month was a limit of a minute.
    #[test]
    fn a_capital_m_is_a_month_for_some_and_a_minute_for_others() {
        for (text, both) in
            [("1M", "\"1m\", minutes, or \"30d\""), ("2 M", "\"2m\", minutes, or \"60d\"")]
        {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(both), "{error}");
        }
        assert!(!parse_duration("1.5M").unwrap_err().to_string().contains("months"));
    }

    #[test]
    fn other_texts_are_no_lengths_and_get_no_hint() {
        for text in ["", "s", "-1s", "+1s", "1s ago", "soon", "1/3s", "0.0000001s", "1..2s", "٣s"]
        {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains("is not a length of time"), "{error}");
            assert!(!error.contains("did you mean"), "{error}");
        }
    }

    #[test]
    fn lengths_that_overflow_are_refused_not_wrapped() {
        for text in ["18446744073709551616us", "18446744073709551615ms", "99999999999999999999d"] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains("longer than can be counted"), "{error}");
        }
        assert_eq!(parse_duration("18446744073709551615us"), Ok(Duration::from_micros(u64::MAX)));
    }
}
