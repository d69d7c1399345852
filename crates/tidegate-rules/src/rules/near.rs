//! The fraction of a limit from which an admitted answer is marked as near the end.

use std::fmt;
use std::str::FromStr;

use tidegate_core::text::shown;
use tidegate_core::{Decision, ValueError};

/// A part of a million, so that a fraction with up to six decimals is exact.
const WHOLE: u32 = 1_000_000;

/// A fraction above 0 and at most 1, with up to six decimals.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec};
///
/// let rule = RuleSpec::new("per-user", "10/h").key(["user"]).near("0.8".parse()?);
/// let gate = Gate::new(Policy::new(vec![rule])?);
/// let near: Vec<_> = (1..=11).map(|_| gate.check(&[("user", "ada")]).is_near()).collect();
/// // From the eighth of ten on; the eleventh is refused.
/// assert_eq!(near.iter().position(|near| *near), Some(7));
/// assert!(!near[10]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Near(u32);

impl Near {
    /// In parts of a million.
    #[must_use]
    pub const fn parts_per_million(self) -> u32 {
        self.0
    }
}

/// Returns whether a limiter that admitted a request has so much in use.
#[inline]
pub fn is_near(decision: &Decision, near: Near) -> bool {
    let Decision { limit, remaining, .. } = *decision;
    // Compared crosswise, because a quotient would be rounded at the boundary.
    let used = u128::from(limit.saturating_sub(remaining)) * u128::from(WHOLE);
    decision.is_allowed() && limit > 0 && used >= u128::from(limit) * u128::from(near.0)
}

impl FromStr for Near {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        parts(text).map(Self).ok_or_else(|| {
            ValueError::new(format!(
                "\"{}\" is not a fraction of the limit: expected a number above 0 and at most 1, with at most six \
                 decimals, such as 0.8",
                shown(text)
            ))
        })
    }
}

/// The parts of a million of a decimal number in its range.
fn parts(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let decimals = if is_number(decimals) { decimals.trim_end_matches('0') } else { return None };
    if !is_number(whole) || decimals.len() > 6 {
        return None;
    }
    // Filled up to six digits, the decimals are the parts of a million.
    let (whole, decimals): (u32, u32) =
        (whole.parse().ok()?, format!("{decimals:0<6}").parse().ok()?);
    let parts = whole.checked_mul(WHOLE)?.checked_add(decimals)?;
    (1..=WHOLE).contains(&parts).then_some(parts)
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            WHOLE => f.write_str("1"),
            parts => f.write_str(format!("0.{parts:06}").trim_end_matches('0')),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Micros, Outcome};

    #[test]
    fn fractions_are_read_exactly_and_written_as_they_were() {
        for (text, parts) in
            [("0.8", 800_000), ("1", WHOLE), ("0.000001", 1), ("0.333333", 333_333)]
        {
            let near: Near = text.parse().unwrap();
            assert_eq!((near.parts_per_million(), near.to_string()), (parts, text.to_owned()));
        }
        assert_eq!("1.000".parse::<Near>().unwrap(), "01.0".parse().unwrap());
        for wrong in "0 0.0 1.000001 2 -0.5 +1 .5 1. 8e-1 0.1234567 0,8 80%".split(' ').chain([""])
        {
            let error = wrong.parse::<Near>().unwrap_err().to_string();
            assert!(error.contains("expected a number above 0"), "{error}");
        }
    }

    #[test]
    fn it_is_reached_exactly_where_the_fractions_are_equal() {
        let decision = |limit, remaining| Decision {
            outcome: Outcome::Allow { delay: Micros::ZERO },
            limit,
            remaining,
            reset_after: Micros::ZERO,
        };
        let near: Near = "0.8".parse().unwrap();
        for limit in [1, 3, 5, 10, 999_999_937, u64::MAX] {
            let least = (u128::from(limit) * 8).div_ceil(10) as u64;
            assert!(is_near(&decision(limit, limit - least), near));
            assert!(!is_near(&decision(limit, limit - least + 1), near));
        }
        assert!(!is_near(&decision(0, 0), near), "a closed rule admits nothing");
        let denied = Decision { outcome: Outcome::Never, ..decision(5, 0) };
        assert!(!is_near(&denied, near));
    }
}
