//! Rates as text: `"100/s"`, `"200/60s"`, `"7/250ms"`.
//!
//! The `rate` of a rule is written so, and a limit that a program gives as text. An error suggests the rate that may
//! be meant.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use super::length::{decimal, meant, minutes_or_months, parse_duration, spaceless, split_number};
use super::shown;
use super::value_error::ValueError;
use crate::time::Micros;

const EXPECTED: &str = "expected units per time, such as \"100/s\", \"200/60s\" or \"7/250ms\"";
/// Longer texts are not searched for what they may have meant.
const LONGEST_MEANT: usize = 64;

/// Reads a rate: a whole number of units, `/`, and a length of time whose number may be left out when
/// it is 1.
///
/// The fraction is kept as written: `200/60s` is a limit of 200 in a window of 60 s.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::text::parse_rate;
///
/// assert_eq!(parse_rate("100/s"), Ok((100, Duration::from_secs(1))));
/// assert_eq!(parse_rate("7/250ms"), Ok((7, Duration::from_millis(250))));
/// assert!(parse_rate("100").is_err());
/// ```
///
/// # Errors
/// For any other text, for a number of units over u64, and for a length of 0.
pub fn parse_rate(text: &str) -> Result<(u64, Duration), ValueError> {
    let Some((units, window)) = text.split_once('/').filter(|(units, _)| is_whole(units)) else {
        return Err(not_a_rate(text));
    };
    let units = units.parse().map_err(|_| too_many(text))?;
    let window = window_of(window).ok_or_else(|| not_a_rate(text))??;
    if window.is_zero() {
        return Err(ValueError::new(format!(
            "\"{}\" is a rate over no time at all: {EXPECTED}",
            shown(text)
        )));
    }
    Ok((units, window))
}

fn is_whole(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The length after the `/`; `None` when it does not resemble one.
fn window_of(text: &str) -> Option<Result<Duration, ValueError>> {
    let (digits, unit) = split_number(text, |c| c.is_ascii_digit());
    // A unit alone means one of it; and if one of it cannot be read, the text names no unit.
    match (digits.is_empty(), parse_duration(&format!("1{unit}"))) {
        (true, Ok(one)) => Some(Ok(one)),
        (false, Ok(_)) => Some(parse_duration(text)),
        (_, Err(_)) => None,
    }
}

fn too_many(text: &str) -> ValueError {
    ValueError::new(format!(
        "\"{}\" is more than can be counted: expected at most 1000000000 units",
        shown(text)
    ))
}

fn not_a_rate(text: &str) -> ValueError {
    let meant = match per_minutes_or_months(text) {
        Some((minutes, days)) => Some(format!(
            "; did you mean \"{minutes}\", minutes, or \"{days}\", months of 30 days?"
        )),
        None => meant_rate(text).map(|rate| format!("; did you mean \"{rate}\"?")),
    };
    ValueError::new(format!(
        "\"{}\" is not a rate: {EXPECTED}{}",
        shown(text),
        meant.unwrap_or_default()
    ))
}

/// The rates that a text may have meant whose window has the unit `M`.
fn per_minutes_or_months(text: &str) -> Option<(String, String)> {
    let (units, window) = text.split_once('/')?;
    let units = Some(units.trim()).filter(|units| is_whole(units))?;
    let (minutes, days) = minutes_or_months(window.trim())?;
    Some((format!("{units}/{minutes}"), format!("{units}/{days}")))
}

/// The rate that another text may have meant: `100`, `100 per second`, `1.5/s`.
fn meant_rate(text: &str) -> Option<String> {
    if text.len() > LONGEST_MEANT {
        return None;
    }
    let text = spaceless(text).replace("per", "/").replace("rps", "/s").replace("rpm", "/m");
    let (units, window) = text.split_once('/').unwrap_or((&text, "s"));
    let (units, scale) = decimal(units)?;
    // A window without a number means one of its unit.
    let counted = window.starts_with(|c: char| c.is_ascii_digit());
    let window = if counted { meant(window)? } else { meant(&format!("1{window}"))? };
    let window = stretched(window, scale)?;
    // A window of one unit is written without its number: `1s` is `s`.
    let one = window.strip_prefix('1').filter(|unit| unit.starts_with(char::is_alphabetic));
    Some(format!("{units}/{}", one.unwrap_or(&window)))
}

/// The length multiplied by `scale`, so that a fraction of a unit in a rate becomes whole.
fn stretched(length: String, scale: u128) -> Option<String> {
    if scale == 1 {
        return Some(length);
    }
    let length_us = Micros::from(parse_duration(&length).ok()?).as_micros();
    let stretched_us = length_us.checked_mul(u64::try_from(scale).ok()?)?;
    Some(Micros::from_micros(stretched_us).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fraction_is_kept_as_it_is_written() {
        assert_eq!(parse_rate("200/60s"), Ok((200, Duration::from_secs(60))));
        assert_eq!(parse_rate("0/d"), Ok((0, Duration::from_secs(86_400))));
        assert_eq!(parse_rate("700000000/s"), Ok((700_000_000, Duration::from_secs(1))));
    }

    #[test]
    fn per_second_is_never_taken_for_one_per_so_many_seconds() {
        assert_eq!(parse_rate("5/s"), Ok((5, Duration::from_secs(1))));
        assert_eq!(parse_rate("1/5s"), Ok((1, Duration::from_secs(5))));
    }

    #[test]
    fn a_capital_m_is_a_month_for_some_and_a_minute_for_others() {
        for text in ["100/M", "100/1M", "100 / 1 M"] {
            let error = parse_rate(text).unwrap_err().to_string();
            assert!(error.contains("\"100/1m\", minutes, or \"100/30d\", months"), "{error}");
        }
    }

    #[test]
    fn the_rate_that_was_meant_is_suggested() {
        let hints = [
            ("100", "100/s"),
            ("100 / s", "100/s"),
            ("100 per second", "100/s"),
            ("100/sec", "100/s"),
            ("1.5/s", "15/10s"),
            ("100rps", "100/s"),
            ("10/1.5s", "10/1500ms"),
        ];
        for (text, rate) in hints {
            let error = parse_rate(text).unwrap_err().to_string();
            assert!(error.ends_with(&format!("did you mean \"{rate}\"?")), "{text}: {error}");
        }
    }

    #[test]
    fn other_texts_are_no_rates() {
        for text in ["", "/", "/s", "100/", "100/s/s", "-1/s", "+1/s", "100/parsec", "fast"] {
            let error = parse_rate(text).unwrap_err().to_string();
            assert!(error.contains("is not a rate"), "{text}: {error}");
        }
        let error = parse_rate("100/0s").unwrap_err().to_string();
        assert!(error.contains("over no time"), "{error}");
        let error = parse_rate("99999999999999999999/s").unwrap_err().to_string();
        assert!(error.contains("more than can be counted"), "{error}");
        let error = parse_rate("1/99999999999999999999s").unwrap_err().to_string();
        assert!(error.contains("longer than can be counted"), "{error}");
    }
}
