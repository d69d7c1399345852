//! The fields of a rule: their names in a configuration, and the values that they accept.
//!
//! `Spec` and the errors of a rule name fields by it. A configuration finds the line of an error by the same names.

use core::fmt;

/// A field of a rule that carries a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// N: units per window.
    Limit,
    /// W: the length of the window.
    Window,
    /// The number of buckets that a sliding window is cut into.
    Buckets,
    /// True if a sliding window also counts the bucket that has left only in part.
    Strict,
    /// Where a fixed window begins.
    Anchor,
    /// Most units a bucket or queue holds.
    Capacity,
    /// Tokens a bucket starts with.
    Initial,
    /// The resolution of the times that a log keeps.
    Resolution,
    /// The form in which a store keeps a log.
    Layout,
    /// Most bytes that the states of all keys of a rule may take.
    MaxMemory,
    /// The number of units beyond the limit that a settlement may leave in use.
    MaxDebt,
}

impl Field {
    /// Every field that carries a value.
    pub const ALL: [Self; 11] = [
        Self::Limit,
        Self::Window,
        Self::Buckets,
        Self::Strict,
        Self::Anchor,
        Self::Capacity,
        Self::Initial,
        Self::Resolution,
        Self::Layout,
        Self::MaxMemory,
        Self::MaxDebt,
    ];

    /// The field's name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Window => "window",
            Self::Buckets => "buckets",
            Self::Strict => "strict",
            Self::Anchor => "anchor",
            Self::Capacity => "capacity",
            Self::Initial => "initial",
            Self::Resolution => "resolution",
            Self::Layout => "layout",
            Self::MaxMemory => "max_memory",
            Self::MaxDebt => "max_debt",
        }
    }

    /// The values that the field accepts.
    #[must_use]
    pub const fn expects(self) -> &'static str {
        match self {
            Self::Limit => "a whole number from 0 to 1000000000, or -1 for unlimited",
            Self::Window => "a length from \"1ms\" to \"366d\"",
            Self::Buckets => "a whole number from 1 to 1000 that divides the window",
            Self::Strict => "true or false",
            Self::Anchor => "\"epoch\" or \"first_request\"",
            Self::Capacity => "a whole number from 1 (0 for a queue) to 1000000000",
            Self::Initial => "a whole number from 0 to the capacity",
            Self::Resolution => "a length from \"1us\" to the window",
            Self::Layout => "\"string\" or \"sorted_set\"",
            Self::MaxMemory => "a number of bytes from 1024 to 2^40",
            Self::MaxDebt => "a whole number of units, 0 or more",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
