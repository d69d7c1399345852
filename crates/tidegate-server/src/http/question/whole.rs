//! A whole number as written, up to a bound.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};

/// Reads a number from 0 to the bound, in whatever type the reader chose for it.
#[derive(Clone, Copy)]
pub(super) struct Whole {
    /// The noun for the number, with its article.
    pub(super) what: &'static str,
    pub(super) most: u64,
}

impl Whole {
    pub(super) fn read<E: Error>(self, number: Unexpected<'_>) -> Result<u64, E> {
        match number {
            Unexpected::Unsigned(number) if number <= self.most => Ok(number),
            other => Err(E::invalid_value(other, &self)),
        }
    }
}

impl Visitor<'_> for Whole {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, which is a whole number from 0 to {}", self.what, self.most)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        self.read(Unexpected::Unsigned(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u64, E> {
        self.read(Unexpected::Signed(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        self.read(Unexpected::Float(number))
    }
}
