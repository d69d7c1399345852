//! The kinds of values that fields expect, as data. Each list of fields names the kind of a field next to its reader,
//! and `tidegate schema` prints all of them for editors.

use super::hints::KnownName;

/// The value that a field expects, as far as other fields have no say in it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ValueKind {
    /// A text.
    Text,
    /// A text that matches a regular expression.
    Pattern(&'static str),
    /// `true` or `false`.
    Flag,
    /// A whole number between two bounds.
    Whole(i64, u64),
    /// A number above 0 and at most 1.
    Fraction,
    /// One of a few texts.
    Names(fn() -> Vec<&'static str>),
    /// An array of texts.
    Texts,
    /// A table with any names, whose values are of one kind.
    Entries(&'static Self),
    /// A table with these fields.
    Table(fn() -> FieldKinds),
    /// An array of tables with these fields.
    Tables(fn() -> FieldKinds),
    /// A value of any of these kinds.
    Either(&'static [Self]),
}

/// The fields of a table, with the kind of value that each expects.
pub type FieldKinds = Vec<(&'static str, ValueKind)>;

impl ValueKind {
    /// A length of time, such as `"250ms"`.
    pub const TIME: Self = Self::Pattern("^[0-9]+(us|ms|s|m|h|d)$");
    /// An amount of memory, such as `"64MiB"`.
    pub const SIZE: Self = Self::Pattern("^[0-9]+(B|KiB|MiB|GiB|TiB)$");
    /// Units per time, such as `"100/s"`.
    pub(super) const RATE: Self = Self::Pattern("^[0-9]+/[0-9]*(us|ms|s|m|h|d)$");
    /// A limit; -1 is unlimited.
    pub(super) const LIMIT: Self = Self::Whole(-1, tidegate_core::MAX_LIMIT);
}

/// The accepted names of values.
pub(super) fn names<T>(words: &[(T, KnownName)]) -> Vec<&'static str> {
    words.iter().map(|(_, (word, _))| *word).collect()
}
