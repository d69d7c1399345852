//! A cost as it is written: a whole number that is not too large.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use tidegate::MAX_COST;

/// Units; 1 unless said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost(u64);

impl Cost {
    pub(super) const fn units(self) -> u64 {
        self.0
    }

    /// The cost of a number, whatever kind of number a reader takes it for.
    pub(super) fn read<E: Error>(number: Unexpected<'_>) -> Result<Self, E> {
        match number {
            Unexpected::Unsigned(units) if units <= MAX_COST => Ok(Self(units)),
            other => Err(E::invalid_value(other, &Number)),
        }
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self(1)
    }
}

struct Number;

impl Visitor<'_> for Number {
    type Value = Cost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a cost, which is a whole number from 0 to {MAX_COST}")
    }

    fn visit_u64<E: Error>(self, units: u64) -> Result<Cost, E> {
        Cost::read(Unexpected::Unsigned(units))
    }

    fn visit_i64<E: Error>(self, units: i64) -> Result<Cost, E> {
        Cost::read(Unexpected::Signed(units))
    }

    fn visit_f64<E: Error>(self, units: f64) -> Result<Cost, E> {
        Cost::read(Unexpected::Float(units))
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u64(Number)
    }
}
