//! A share in percent, compared without rounding, for `tidegate replay --fail-above`.

use std::fmt;
use std::str::FromStr;

/// Digits after the decimal point.
const PLACES: u32 = 6;
/// Parts of one percent.
const PARTS: u64 = 10_u64.pow(PLACES);

/// A share from 0% to 100%.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Percentage {
    /// In parts of a percent.
    parts: u64,
    text: String,
}

impl Percentage {
    /// Returns whether `part` of `whole` is more than this share; nothing of nothing is not.
    pub(super) fn is_exceeded(&self, part: u64, whole: u64) -> bool {
        // Multiplied crosswise in 128 bits: neither a division nor a float rounds at the boundary.
        u128::from(part) * u128::from(100 * PARTS) > u128::from(whole) * u128::from(self.parts)
    }
}

impl FromStr for Percentage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parts(text)
            .map(|parts| Self { parts, text: text.to_owned() })
            .ok_or_else(|| "expected a share from 0% to 100%, such as 1% or 0.05%".to_owned())
    }
}

/// The parts of a percent that a text means; `None` if it is no share.
fn parts(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%')?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // `parse` alone would take a sign.
    let are_numbers = [whole, fraction]
        .iter()
        .all(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()));
    if !are_numbers || fraction.len() > PLACES as usize {
        return None;
    }
    let whole: u64 = whole.parse().ok().filter(|whole| *whole <= 100)?;
    let fraction: u64 = format!("{fraction:0<width$}", width = PLACES as usize).parse().ok()?;
    Some(whole * PARTS + fraction).filter(|parts| *parts <= 100 * PARTS)
}

impl fmt::Display for Percentage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exceeded_by_more_and_not_by_as_much() {
        let exceeded = |share: &str, part, whole| {
            share.parse::<Percentage>().unwrap().is_exceeded(part, whole)
        };
        assert!(!exceeded("1%", 10, 1_000) && exceeded("1%", 11, 1_000));
        assert!(!exceeded("0%", 0, 7) && exceeded("0%", 1, u64::MAX));
        assert!(!exceeded("100%", u64::MAX, u64::MAX) && !exceeded("0%", 0, 0));
        assert!(exceeded("0.000001%", 2, 100_000_000) && !exceeded("0.000001%", 1, 100_000_000));
    }

    #[test]
    fn only_a_percentage_is_a_share() {
        for wrong in
            ["", "%", "1", "-1%", "1.%", ".5%", "101%", "100.1%", "1.2345678%", "1e1%", "+1%"]
        {
            assert!(
                wrong.parse::<Percentage>().unwrap_err().contains("expected a share"),
                "{wrong}"
            );
        }
        assert_eq!("2.50%".parse::<Percentage>().unwrap().to_string(), "2.50%");
    }
}
