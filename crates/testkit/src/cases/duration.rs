//! Durations as written in tables.

const UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// Reads an integer with a unit (`250ms`, `1_000us`, `366d`), or a bare `0`, in microseconds.
///
/// # Errors
/// Returns the text that was read, and the expected form.
///
/// ```
/// assert_eq!(testkit::cases::parse_duration_us("90s"), Ok(90_000_000));
/// assert!(testkit::cases::parse_duration_us("1.5s").is_err());
/// ```
pub fn parse_duration_us(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let refuse = |why: &str| format!("`{text}` is not a duration: {why}, as in `250ms`");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number = parse_count(digits).map_err(|_| refuse("expected an integer"))?;
    let (_, us) = UNITS
        .into_iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| refuse("expected one of us, ms, s, m, h, d after the integer"))?;
    number.checked_mul(us).ok_or_else(|| refuse("too long, expected less than 2^64 us"))
}

/// Reads a number of units; digits may be grouped with `_`.
pub(super) fn parse_count(text: &str) -> Result<u64, String> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let all_digits = digits.chars().all(|c| c.is_ascii_digit());
    let number = if all_digits { digits.parse().ok() } else { None };
    number.ok_or_else(|| format!("`{text}` is not a count: expected an integer from 0 to 2^64 - 1"))
}

#[cfg(test)]
mod tests {
    use super::{parse_count, parse_duration_us};

    #[test]
    fn every_unit_is_read() {
        let read = ["7us", "7ms", "7s", "7m", "7h", "7d", "0", "1_000us"].map(parse_duration_us);
        let us = [7, 7_000, 7_000_000, 420_000_000, 25_200_000_000, 604_800_000_000, 0, 1_000];
        assert_eq!(read, us.map(Ok));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "7", "ms", "1.5s", "-1s", "1 s", "1w", "s1", "_", "20000000000000000s"] {
            assert!(parse_duration_us(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_count_is_refused() {
        assert_eq!(parse_count("1_000"), Ok(1_000));
        for text in ["", "-1", "+1", "1.0", "one", "18446744073709551616"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }
}
