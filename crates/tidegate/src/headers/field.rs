//! The header fields of an answer, and the choice of some of them.
//!
//! The layers choose by it which fields a response shows.

/// A header field of an answer, in the order in which they are written.
///
/// ```
/// use tidegate::headers::{HeaderField, FieldSet};
///
/// let fields = FieldSet::from([HeaderField::Limits, HeaderField::RetryAfter]);
/// assert!(fields.has(HeaderField::RetryAfter));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderField {
    /// `X-RateLimit-Limit`: the limit of the reported rule.
    Limit,
    /// `X-RateLimit-Remaining`: the units left of it.
    Remaining,
    /// `X-RateLimit-Reset`: when its limiter is idle.
    Reset,
    /// `RateLimit-Policy`: the values of all rules that matched.
    Policies,
    /// `RateLimit`: the units left of each of them.
    Limits,
    /// `Retry-After`: the wait after a refusal that will pass.
    RetryAfter,
}

impl HeaderField {
    /// The number of fields.
    pub(crate) const COUNT: usize = 6;

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Limit => "X-RateLimit-Limit",
            Self::Remaining => "X-RateLimit-Remaining",
            Self::Reset => "X-RateLimit-Reset",
            Self::Policies => "RateLimit-Policy",
            Self::Limits => "RateLimit",
            Self::RetryAfter => "Retry-After",
        }
    }
}

/// A set of fields: all (`true`), none (`false`), or some (`[HeaderField::Limit, HeaderField::Remaining]`).
///
/// ```
/// use tidegate::headers::{HeaderField, FieldSet};
///
/// let two = FieldSet::from([HeaderField::Limit, HeaderField::Remaining]);
/// assert!(two.has(HeaderField::Limit) && !two.has(HeaderField::Reset));
/// assert!(FieldSet::from(true).has(HeaderField::Reset) && !FieldSet::from(false).has(HeaderField::Limit));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u8);

impl FieldSet {
    /// Returns whether a field belongs to the set.
    #[must_use]
    #[inline]
    pub const fn has(self, field: HeaderField) -> bool {
        self.0 & Self::bit(field) != 0
    }

    /// The set without the fields of `other`.
    #[cfg(feature = "tower")]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether the set has no field.
    #[cfg(feature = "tower")]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A bit for each of its fields.
    #[cfg(feature = "tower")]
    pub(crate) const fn bits(self) -> usize {
        self.0 as usize
    }

    /// The set with one more field.
    pub(crate) const fn with(self, field: HeaderField) -> Self {
        Self(self.0 | Self::bit(field))
    }

    const fn bit(field: HeaderField) -> u8 {
        1 << field as u8
    }
}

impl From<bool> for FieldSet {
    fn from(all: bool) -> Self {
        Self(if all { (1 << HeaderField::COUNT) - 1 } else { 0 })
    }
}

impl<const N: usize> From<[HeaderField; N]> for FieldSet {
    fn from(fields: [HeaderField; N]) -> Self {
        fields.into_iter().fold(Self(0), Self::with)
    }
}
