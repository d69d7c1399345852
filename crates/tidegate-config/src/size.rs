//! Amounts of memory as text: `"64MiB"`.
//!
//! `max_memory` is written so, and amounts of memory on the command line.

use tidegate_core::ValueError;
use tidegate_core::text::shown;
use tidegate_core::text::{spaceless, split_number};

/// All units; each letter alone, and as decimal unit, is understood in hints only.
const UNITS: [(&str, u64); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// Reads an amount of memory, in bytes: a whole number followed by `B`, `KiB`, `MiB`, `GiB` or
/// `TiB`.
///
/// # Errors
/// Returns an error with the expected form, and the form that may be meant.
pub fn parse_size(text: &str) -> Result<u64, ValueError> {
    let (digits, unit) = split_number(text, |c| c.is_ascii_digit());
    let bytes = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes);
    let number: Option<u64> = digits.parse().ok();
    number
        .zip(bytes)
        .and_then(|(number, bytes)| number.checked_mul(bytes))
        .ok_or_else(|| not_a_size(text))
}

fn not_a_size(text: &str) -> ValueError {
    let meant = meant(text).map(|size| format!("; did you mean \"{size}\"?"));
    ValueError::new(format!(
        "\"{}\" is not an amount of memory: expected a number of bytes, or a text such as \"64MiB\" \
         with one of B, KiB, MiB, GiB, TiB{}",
        shown(text),
        meant.unwrap_or_default()
    ))
}

fn meant(text: &str) -> Option<String> {
    let text = spaceless(text);
    let (digits, unit) = split_number(&text, |c| c.is_ascii_digit());
    let number: u32 = digits.parse().ok()?;
    let letter = unit.chars().next().unwrap_or('b');
    if unit.len() > "bytes".len() {
        return None;
    }
    let known = UNITS.iter().find(|(name, _)| name.to_ascii_lowercase().starts_with(letter));
    known.map(|(name, _)| format!("{number}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        let read = ["2B", "2KiB", "2MiB", "2GiB", "2TiB"].map(|text| parse_size(text).unwrap());
        assert_eq!(read, [2, 2 << 10, 2 << 20, 2 << 30, 2 << 40]);
    }

    #[test]
    fn decimal_units_are_refused_for_they_are_read_in_two_ways() {
        for (text, size) in [("64MB", "64MiB"), ("64 m", "64MiB"), ("64k", "64KiB"), ("64", "64B")]
        {
            let error = parse_size(text).unwrap_err().to_string();
            assert!(error.ends_with(&format!("did you mean \"{size}\"?")), "{error}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "MiB", "-1MiB", "1.5MiB", "64 potatoes", "99999999999999999TiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
