//! Short labels for counts and durations.
//!
//! Axes and notes of pictures have them, and the tables of reports.

use super::bins::{DAY, HOUR, MINUTE, MS, SECOND};

/// Three significant digits of `n` with the usual letter for a thousand, a million and so on:
/// `999`, `1.5k`, `20k`, `1.5M`.
///
/// ```
/// use tidegate_lab::plot::count_label;
/// assert_eq!(count_label(1_500_000), "1.5M");
/// ```
pub fn count_label(n: u64) -> String {
    wide_count_label(u128::from(n))
}

/// Like [`count_label`]; a bar of two series may be higher than the largest count.
pub(super) fn wide_count_label(n: u128) -> String {
    let mut scaled = n as f64;
    let mut letters = ["", "k", "M", "G", "T", "P", "E"].into_iter();
    let mut letter = letters.next();
    // From here on three digits would be rounded up to four.
    while scaled >= 999.5 {
        scaled /= 1000.0;
        letter = letters.next();
    }
    let decimals = match scaled {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    let digits = format!("{scaled:.decimals$}");
    let short = digits.trim_end_matches('0').trim_end_matches('.');
    // Only zeros after a decimal point mean nothing: 100 stays 100.
    let digits = if decimals > 0 { short } else { &digits };
    format!("{digits}{}", letter.unwrap_or_default())
}

/// A duration as a whole number of the largest unit that divides it: `500 ms`, `90 s`, `2 days`.
///
/// ```
/// use tidegate_lab::plot::duration_label;
/// assert_eq!(duration_label(90_000_000), "90 s");
/// ```
pub fn duration_label(duration_us: u64) -> String {
    match in_largest_unit(duration_us) {
        (n, "day") if n != 1 => format!("{n} days"),
        (n, unit) => format!("{n} {unit}"),
    }
}

/// A measured length for a person, to three digits or to the smaller of two units: `0 s`, `340 ms`,
/// `1.25 s`, `2 min 5 s`, `3 days 4 h`.
///
/// ```
/// use tidegate_lab::plot::length_label;
/// assert_eq!(length_label(1_249_800), "1.25 s");
/// ```
pub fn length_label(length_us: u64) -> String {
    let rounded = to_three_digits(length_us);
    // By the rounded length, because 999,999 us are shown as 1 s.
    match rounded {
        0..MS => duration_label(rounded),
        MS..SECOND => decimal(rounded, MS, "ms"),
        SECOND..MINUTE => decimal(rounded, SECOND, "s"),
        _ => in_two_units(length_us),
    }
}

fn to_three_digits(n: u64) -> u64 {
    let digits = n.checked_ilog10().map_or(1, |log| log + 1);
    rounded_to(n, 10_u64.pow(digits.saturating_sub(3)))
}

/// The nearest multiple; the higher one if both are equally near.
fn rounded_to(n: u64, step: u64) -> u64 {
    n.saturating_add(step / 2) / step * step
}

fn decimal(us: u64, unit: u64, name: &str) -> String {
    let thousandths = us % unit / (unit / 1_000);
    let text = format!("{}.{thousandths:03}", us / unit);
    format!("{} {name}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn in_two_units(length_us: u64) -> String {
    let pairs = [(HOUR, MINUTE, SECOND), (DAY, HOUR, MINUTE), (u64::MAX, DAY, HOUR)];
    // Rounding may reach the next larger unit: 59 min 59.7 s are an hour.
    let (_, large, small) = pairs
        .into_iter()
        .find(|(end, _, small)| rounded_to(length_us, *small) < *end)
        .unwrap_or(pairs[2]);
    let rounded = rounded_to(length_us, small);
    match (rounded - rounded % large, rounded % large) {
        (whole, 0) => duration_label(whole),
        (whole, rest) => format!("{} {}", duration_label(whole), duration_label(rest)),
    }
}

/// The title of the value axis: `requests per second`, `requests per 500 ms`.
pub(super) fn rate_title(bin_us: u64) -> String {
    match in_largest_unit(bin_us) {
        (1, "day") => "requests per day".into(),
        (1, "h") => "requests per hour".into(),
        (1, "min") => "requests per minute".into(),
        (1, "s") => "requests per second".into(),
        _ => format!("requests per {}", duration_label(bin_us)),
    }
}

fn in_largest_unit(duration_us: u64) -> (u64, &'static str) {
    let units = [(DAY, "day"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (MS, "ms")];
    if duration_us == 0 {
        return (0, "s");
    }
    match units.into_iter().find(|(unit, _)| duration_us.is_multiple_of(*unit)) {
        Some((unit, name)) => (duration_us / unit, name),
        None => (duration_us, "\u{b5}s"),
    }
}
