//! A rate as the reduced fraction N/W, and the rounding that goes with it.

use super::Policy;

/// The last instant there is.
const END_US: i128 = (1 << 53) - 1;

/// How long units that never leave stay: until the last instant, and never no time at all.
pub(super) fn until_the_last_instant(t: i128) -> i128 {
    (END_US - t).max(1)
}

/// `n` units in `w` microseconds, reduced. One w-th of a unit takes one n-th of a microsecond,
/// so counted in these parts a unit is `w` parts, and a microsecond is worth `n` parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) n: i128,
    pub(super) w: i128,
}

impl Rate {
    pub(super) fn of(policy: &Policy) -> Self {
        let common = gcd(policy.limit, policy.window_us).max(1);
        Self { n: i128::from(policy.limit / common), w: i128::from(policy.window_us / common) }
    }

    /// Whole microseconds from `t` until that many parts have passed; at a limit of 0 none ever does.
    pub(super) fn wait_from(self, t: i128, parts: i128) -> i128 {
        if self.n == 0 && parts > 0 { until_the_last_instant(t) } else { self.wait(parts) }
    }

    /// Whole microseconds until that many parts have passed, rounded up.
    pub(super) fn wait(self, parts: i128) -> i128 {
        if parts == 0 { 0 } else { ceil_div(parts, self.n) }
    }

    /// The same units, counted in the parts of another rate, rounded up: never a credit.
    pub(super) fn convert(self, parts: i128, to: Self) -> i128 {
        ceil_div(parts * to.w, self.w)
    }
}

/// Quotient rounded up, for a divisor of 1 or more.
pub(super) fn ceil_div(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
