//! The values under which units were taken.

use tidegate_core::Rule;

/// The kind of the script of a bucket, whose last two parameters say how much fits.
pub const BUCKET: u8 = 1;
/// The kind of the script of a queue, whose last two parameters say how much fits.
pub const QUEUE: u8 = 2;
/// The kind of the script of permits, which are known by their tokens.
const PERMITS: u8 = 10;

/// The values of a rule that say whether units which were taken under them come back under others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    kind: u8,
    #[doc(hidden)]
    pub limit: u64,
    window: u64,
    /// Buckets, anchor or resolution.
    others: [u64; 2],
}

impl Values {
    /// The values of a rule; `None` if it is unlimited.
    #[must_use]
    pub fn of(rule: &Rule) -> Option<Self> {
        let input = rule.script_input(0)?;
        let kind = input.script.kind;
        let [limit, window, third, fourth] = input.parameters;
        let others = if matches!(kind, BUCKET | QUEUE) { [0; 2] } else { [third, fourth] };
        Some(Self { kind, limit, window, others })
    }

    /// Its numbers, for [`Values::from_numbers`].
    #[doc(hidden)]
    pub fn to_numbers(self) -> [u64; 5] {
        let Self { kind, limit, window, others: [third, fourth] } = self;
        [kind.into(), limit, window, third, fourth]
    }

    /// The values with these numbers; `None` if there are none.
    #[doc(hidden)]
    pub fn from_numbers([kind, limit, window, third, fourth]: [u64; 5]) -> Option<Self> {
        let kind = u8::try_from(kind).ok()?;
        Some(Self { kind, limit, window, others: [third, fourth] })
    }

    /// Returns whether units that were taken under the other values count in the same way.
    #[doc(hidden)]
    pub fn counts_as(&self, other: &Self) -> bool {
        let window_of = |one: &Self| if one.kind == PERMITS { 0 } else { one.window };
        (self.kind, window_of(self), self.others) == (other.kind, window_of(other), other.others)
    }
}
