//! Time of the limiters: integer microseconds, saturating, never negative.
//!
//! No clock is read here: a caller passes the time to each step.

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: microseconds since the Unix epoch, UTC.
///
/// Values stop at [`Timestamp::MAX`] (2^53 - 1 us, in the year 2255), so that every store, also one
/// whose numbers are doubles, holds the same instant. Arithmetic saturates.
///
/// ```
/// use std::time::Duration;
///
/// # use tidegate_core as tidegate;
/// use tidegate::Timestamp;
///
/// let start = Timestamp::from_micros(1_000_000);
/// let end = start.plus(Duration::from_millis(250));
/// assert_eq!(end.as_micros(), 1_250_000);
/// assert_eq!(end.duration_since(start), Duration::from_millis(250));
/// assert_eq!(start.duration_since(end), Duration::ZERO);
/// ```
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

    /// Returns the time from `earlier` to this instant; zero if this is not later.
    #[must_use]
    pub const fn duration_since(self, earlier: Self) -> Duration {
        self.since(earlier).as_duration()
    }

    /// Returns [`Timestamp::duration_since`] in the engine's own unit.
    #[must_use]
    #[inline]
    #[doc(hidden)]
    pub const fn since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// Returns this instant, `by` later, as `+` does.
    #[must_use]
    #[inline]
    #[doc(hidden)]
    pub fn plus(self, by: impl Into<Micros>) -> Self {
        Self(self.0.saturating_add(by.into().0))
    }

    /// The time until [`Timestamp::MAX`], at least one microsecond: a wait for something that never
    /// happens.
    pub(crate) fn until_the_last(self) -> Micros {
        Self::MAX.since(self).max(Micros(1))
    }

    /// Returns this instant, `by` earlier, as `-` does.
    #[must_use]
    #[doc(hidden)]
    pub fn minus(self, by: impl Into<Micros>) -> Self {
        Self(self.0.saturating_sub(by.into().0))
    }
}

/// The token of a permit: each permit of a limiter has a larger token than all permits before it.
///
/// Usually it is the time at which the permit was taken, in microseconds since the Unix epoch. So the protected
/// resource can refuse a token that is smaller than a token it has seen, and work whose permit has already ended does
/// no harm. Tokens grow also if the clock steps back, as long as the limiter's state is there; a state that was
/// forgotten begins again with the clock.
///
/// ```
/// # use tidegate_core as tidegate;
/// use tidegate::Token;
///
/// let [first, second] = [1_700_000_000_000_000, 1_700_000_000_000_007].map(Token::from_micros);
/// assert!(first < second && Token::from_micros(0).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(NonZeroU64);

impl Token {
    /// The largest token.
    pub(crate) const MAX_US: u64 = Timestamp::MAX.0;

    /// The token of this number; `None` for 0 and for numbers above 2^53 - 1, which no permit has.
    #[must_use]
    pub fn from_micros(us: u64) -> Option<Self> {
        NonZeroU64::new(us).filter(|us| us.get() <= Self::MAX_US).map(Self)
    }

    /// Its number.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Rounds the duration down to whole microseconds. The result can lie beyond [`Timestamp::MAX`], for
/// example as the end of the window that holds the last instant; it stops at 2^64 - 1 microseconds.
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        self.plus(by)
    }
}

/// Rounds the duration down to whole microseconds; stops at the epoch.
impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, by: Duration) -> Self {
        self.minus(by)
    }
}

/// The engine's own length of time, in microseconds; its callers use [`Duration`]. Arithmetic saturates.
///
/// Shown in the largest unit that is exact: `Micros::from_micros(1_500_000)` is `1500ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(u64);

impl From<Micros> for Duration {
    fn from(length: Micros) -> Self {
        length.as_duration()
    }
}

/// Rounds down to whole microseconds; stops at [`Micros::MAX`], 584,542 years.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Micros;
///
/// assert_eq!(Micros::from(Duration::from_nanos(3_999)), Micros::from_micros(3));
/// assert_eq!(Micros::from(Duration::MAX), Micros::MAX);
/// assert_eq!(Duration::from(Micros::from_secs(2)), Duration::from_secs(2));
/// ```
impl From<Duration> for Micros {
    #[inline]
    fn from(length: Duration) -> Self {
        Self::from_duration(length)
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

    /// Returns the whole microseconds of `length`; stops at [`Micros::MAX`].
    #[must_use]
    #[inline]
    pub const fn from_duration(length: Duration) -> Self {
        let whole = length.as_secs().saturating_mul(1_000_000);
        Self(whole.saturating_add(length.subsec_micros() as u64))
    }

    /// Returns this length as a [`Duration`].
    #[must_use]
    #[inline]
    pub const fn as_duration(self) -> Duration {
        Duration::from_micros(self.0)
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

/// Shows a length that a caller gave: as [`Micros`] does, or with its nanoseconds.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Shown(pub Duration);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.subsec_nanos() % 1_000 {
            0 => Micros::from(self.0).fmt(f),
            _ => write!(f, "{:?}, with a part below a microsecond", self.0),
        }
    }
}

/// Returns whether `length` is whole microseconds, as everything is that a limiter counts with.
#[doc(hidden)]
#[must_use]
pub const fn is_whole(length: Duration) -> bool {
    length.subsec_nanos().is_multiple_of(1_000)
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
        // 0 is a multiple of each unit, and is shown in the smallest.
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
