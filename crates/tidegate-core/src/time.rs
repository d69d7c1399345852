//! Time of the limiters: integer microseconds, saturating, never negative.

use core::fmt;
use core::num::TryFromIntError;
use core::time::Duration;

/// A point in time: microseconds since the Unix epoch, UTC.
///
/// Values stop at [`Timestamp::MAX`] (2^53 - 1 us, in the year 2255), so that every store, also one
/// whose numbers are doubles, holds the same instant. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The last instant: 2^53 - 1 microseconds after the epoch.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The instant `us` microseconds after the epoch; later ones count as [`Timestamp::MAX`].
    #[must_use]
    #[inline]
    pub const fn from_micros(us: u64) -> Self {
        if us < Self::MAX.0 { Self(us) } else { Self::MAX }
    }

    /// Microseconds since the epoch.
    #[must_use]
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this instant; zero if this is not later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// This instant, `by` later. The result can lie beyond [`Timestamp::MAX`], for example as the
    /// end of the window that holds the last instant; it stops at 2^64 - 1 microseconds.
    #[must_use]
    #[inline]
    pub const fn plus(self, by: Micros) -> Self {
        Self(self.0.saturating_add(by.0))
    }

    /// The time until [`Timestamp::MAX`], at least one microsecond: a wait for something that never
    /// happens.
    pub(crate) fn until_the_last(self) -> Micros {
        Self::MAX.since(self).max(Micros(1))
    }

    /// This instant, `by` earlier; stops at the epoch.
    #[must_use]
    pub const fn minus(self, by: Micros) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

/// A length of time in microseconds. Arithmetic saturates.
///
/// Shown in the largest unit that is exact: `Micros::from_micros(1_500_000)` is `1500ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(u64);

impl From<Micros> for Duration {
    fn from(length: Micros) -> Self {
        Self::from_micros(length.0)
    }
}

/// Rounded down to whole microseconds; more than [`Micros::MAX`], 584,542 years, is refused.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Micros;
///
/// assert_eq!(Micros::try_from(Duration::from_millis(3)), Ok(Micros::from_millis(3)));
/// assert!(Micros::try_from(Duration::MAX).is_err());
/// assert_eq!(Duration::from(Micros::from_secs(2)), Duration::from_secs(2));
/// ```
impl TryFrom<Duration> for Micros {
    type Error = TryFromIntError;

    fn try_from(length: Duration) -> Result<Self, Self::Error> {
        u64::try_from(length.as_micros()).map(Self)
    }
}

impl Micros {
    /// The empty length.
    pub const ZERO: Self = Self(0);
    /// The longest length; waits of overflowing debts stop here.
    pub const MAX: Self = Self(u64::MAX);

    /// `us` microseconds.
    #[must_use]
    #[inline]
    pub const fn from_micros(us: u64) -> Self {
        Self(us)
    }

    /// `ms` milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000))
    }

    /// `s` seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000))
    }

    /// Microseconds.
    #[must_use]
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded up: a value for `Retry-After` that is never early.
    #[must_use]
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// True for a length of zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The sum of both lengths; stops at [`Micros::MAX`].
    #[must_use]
    pub const fn plus(self, by: Self) -> Self {
        Self(self.0.saturating_add(by.0))
    }

    /// From a wide count of microseconds; stops at [`Micros::MAX`].
    pub(crate) fn saturating_from(us: u128) -> Self {
        Self(u64::try_from(us).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "m"),
            (1_000_000, "s"),
            (1_000, "ms"),
        ];
        let exact = UNITS.iter().find(|(us, _)| self.0 != 0 && self.0.is_multiple_of(*us));
        match exact {
            Some((us, unit)) => write!(f, "{}{unit}", self.0 / us),
            None => write!(f, "{}us", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn instants_stop_at_both_ends() {
        assert_eq!(Timestamp::from_micros(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX.plus(Micros::MAX).as_micros(), u64::MAX);
        assert_eq!(Timestamp::EPOCH.minus(Micros::MAX), Timestamp::EPOCH);
        assert_eq!(Timestamp::EPOCH.since(Timestamp::MAX), Micros::ZERO);
    }

    #[test]
    fn lengths_are_shown_in_the_largest_exact_unit() {
        let shown = [0, 7, 1_500, 2_000, 1_500_000, 60_000_000, 90_000_000, 86_400_000_000];
        let shown = shown.map(|us| Micros::from_micros(us).to_string());
        assert_eq!(shown, ["0us", "7us", "1500us", "2ms", "1500ms", "1m", "90s", "1d"]);
    }

    #[test]
    fn seconds_are_rounded_up_so_that_retry_after_is_never_early() {
        let seconds = [0, 1, 999_999, 1_000_000, 1_000_001].map(|us| Micros(us).as_secs_ceil());
        assert_eq!(seconds, [0, 1, 1, 1, 2]);
    }
}
