//! The errors of a rule, each with the expected value.
//!
//! `Rule::new` returns all errors of a rule together.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;
use core::time::Duration;

use crate::algorithms::AlgorithmKind;
use crate::field::Field;
use crate::text::ValueError;
use crate::time::Shown;

/// One error in the fields of a rule. Its text gives the expected value and the way to correct it.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{AlgorithmKind, Field, Rule, RuleError, Spec};
///
/// let mut spec = Spec::new(AlgorithmKind::SlidingCounter, 10, Duration::from_millis(1));
/// spec.buckets = Some(3);
/// spec.capacity = Some(5);
/// let errors = Rule::new(spec).unwrap_err();
/// for error in errors.iter() {
///     match error {
///         RuleError::Meaningless { field, algorithm } => println!("no {field} for {algorithm}"),
///         RuleError::Indivisible { nearest, .. } => println!("{nearest} buckets would do"),
///         other => println!("{other}"), // what was expected, and how to correct it
///     }
/// }
/// assert!(errors.iter().any(|error| error.field() == Field::Capacity));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleError {
    /// A text that is no rate, such as `"50/s"`.
    Text(ValueError),
    /// A required field is missing.
    Missing {
        /// The field.
        field: Field,
    },
    /// A number or length outside the range of the field.
    OutOfRange {
        /// The field.
        field: Field,
        /// The given value, as text.
        given: String,
        /// The allowed values, as text.
        expected: String,
    },
    /// A field that the algorithm of the rule does not have.
    Meaningless {
        /// The field.
        field: Field,
        /// The algorithm it was given to.
        algorithm: AlgorithmKind,
    },
    /// The buckets do not divide the window into whole microseconds.
    Indivisible {
        /// Number of buckets given.
        buckets: u64,
        /// The window.
        window: Duration,
        /// The nearest number of buckets that does divide it.
        nearest: u64,
    },
    /// The bucket would take more than 2^53 microseconds (285 years) to fill.
    TooSlow {
        /// The capacity of the rule.
        capacity: u64,
        /// The largest capacity that fills in time at this rate.
        most: u64,
    },
    /// The state of one key could grow past the memory that all states of the rule may take.
    TooLarge {
        /// Most bytes the state could hold.
        bytes: u64,
        /// The cap, in bytes.
        max_memory: u64,
        /// A resolution at which the state would fit, if the algorithm has one.
        resolution: Option<Duration>,
    },
}

impl RuleError {
    /// The field that the error is about, so that a reader of a file can find its line.
    #[must_use]
    pub const fn field(&self) -> Field {
        match self {
            Self::Text(_) => Field::Limit,
            Self::Missing { field }
            | Self::OutOfRange { field, .. }
            | Self::Meaningless { field, .. } => *field,
            Self::Indivisible { .. } => Field::Buckets,
            Self::TooSlow { .. } => Field::Capacity,
            // The field that helps: a coarser resolution, if the algorithm has one.
            Self::TooLarge { resolution: Some(_), .. } => Field::Resolution,
            Self::TooLarge { resolution: None, .. } => Field::MaxMemory,
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::Missing { field } => {
                write!(f, "`{field}` is missing: expected {}", field.expects())
            }
            Self::OutOfRange { field, given, expected } => {
                write!(f, "`{field}` is {given}: expected {expected}")
            }
            Self::Meaningless { field, algorithm } => {
                write!(f, "`{field}` means nothing to `{algorithm}`: only ")?;
                let having = AlgorithmKind::ALL.iter().filter(|a| a.takes(*field));
                for (i, algorithm) in having.enumerate() {
                    write!(f, "{}`{algorithm}`", if i == 0 { "" } else { ", " })?;
                }
                write!(f, " can have it; remove it or change the algorithm")
            }
            Self::Indivisible { buckets, window, nearest } => write!(
                f,
                "{buckets} `buckets` do not divide a window of {} into whole microseconds: \
                 the nearest number that does is {nearest}",
                Shown(*window)
            ),
            Self::TooSlow { capacity, most } => write!(
                f,
                "a `capacity` of {capacity} would take more than 285 years to fill at this rate: \
                 expected at most {most}, or a higher rate"
            ),
            Self::TooLarge { bytes, max_memory, resolution } => {
                write!(
                    f,
                    "the state of one key could grow to {bytes} bytes, over `max_memory` = {max_memory}: "
                )?;
                match resolution {
                    Some(resolution) => {
                        write!(f, "set `resolution = \"{}\"` or coarser, ", Shown(*resolution))?;
                    }
                    None => f.write_str("set a smaller `limit`, ")?,
                }
                f.write_str("or raise `max_memory`")
            }
        }
    }
}

debug_as_display!(RuleError);

impl core::error::Error for RuleError {}

/// All errors of one rule; never empty.
///
/// ```
/// use tidegate_core::{Rule, Spec};
///
/// let errors = Rule::new(Spec::per_second(10).burst(0)).unwrap_err();
/// assert_eq!(errors.iter().map(|error| error.field().name()).collect::<Vec<_>>(), ["capacity"]);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RuleErrors(Vec<RuleError>);

impl RuleErrors {
    /// `Ok` when `errors` is empty.
    pub(crate) fn none(errors: Vec<RuleError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }

    /// The errors, in the order of the rule's fields.
    pub fn iter(&self) -> impl Iterator<Item = &RuleError> {
        self.0.iter()
    }
}

/// A rule that is given as a spec, not as text, is read without an error.
impl From<Infallible> for RuleErrors {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<RuleError> for RuleErrors {
    fn from(error: RuleError) -> Self {
        Self(alloc::vec![error])
    }
}

impl fmt::Display for RuleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

debug_as_display!(RuleErrors);

impl core::error::Error for RuleErrors {}

/// The error of a value outside the range of its field.
pub(crate) fn out_of_range(field: Field, given: impl fmt::Display) -> RuleError {
    RuleError::OutOfRange {
        field,
        given: format!("{given}"),
        expected: field.expects().to_string(),
    }
}
