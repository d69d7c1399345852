//! A cost as written: a whole number that is not too large.

use serde::de::{Deserialize, Deserializer, Error, Unexpected};
use tidegate::MAX_COST;

use super::whole::Whole;

const NUMBER: Whole = Whole { what: "a cost", most: MAX_COST };

/// Units; 1 by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost(u64);

impl Cost {
    pub(super) const fn units(self) -> u64 {
        self.0
    }

    /// The cost of a number, in whatever type the reader chose for it.
    pub(super) fn read<E: Error>(number: Unexpected<'_>) -> Result<Self, E> {
        NUMBER.read(number).map(Self)
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self(1)
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u64(NUMBER).map(Self)
    }
}
