//! A rate as the reduced fraction N/W, with its rounding.
//!
//! The models of buckets and queues count in its parts, so that a level is rounded only when its rate changes.

use super::Policy;

/// The last possible instant.
const END_US: i128 = (1 << 53) - 1;

/// The time until units leave that never leave by themselves: until the last instant, but at least one microsecond.
pub(super) fn until_the_last_instant(t: i128) -> i128 {
    (END_US - t).max(1)
}

/// `n` units in `w` microseconds, reduced. One w-th of a unit takes one n-th of a microsecond;
/// counted in these parts a unit is `w` parts, and `n` parts pass in a microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) n: i128,
    pub(super) w: i128,
}

impl Rate {
    pub(super) fn of(policy: &Policy) -> Self {
        let common = gcd(policy.limit, policy.window_us).max(1);
        Self { n: i128::from(policy.limit / common), w: i128::from(policy.window_us / common) }
    }

    /// Whole microseconds from `t` until this many parts have passed; at a limit of 0 none ever
    /// does.
    pub(super) fn wait_from(self, t: i128, parts: i128) -> i128 {
        if self.n == 0 && parts > 0 { until_the_last_instant(t) } else { self.wait(parts) }
    }

    /// Whole microseconds until this many parts have passed, rounded up; at a limit of 0 use
    /// [`Rate::wait_from`].
    pub(super) fn wait(self, parts: i128) -> i128 {
        if parts == 0 { 0 } else { ceil_div(parts, self.n) }
    }

    /// The same units in the parts of another rate, rounded up, so that there is no credit.
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
