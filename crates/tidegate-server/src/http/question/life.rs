//! The lifetime of a reservation, given in whole milliseconds.

use serde::de::{Deserialize, Deserializer, Error, Unexpected};
use std::time::Duration;

use super::whole::Whole;
use crate::limiters::LONGEST_LIFE;

const NUMBER: Whole =
    Whole { what: "a life in milliseconds", most: LONGEST_LIFE.as_millis() as u64 };

/// The time until a reservation ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life(Duration);

impl Life {
    pub(super) const fn time(self) -> Duration {
        self.0
    }
}

impl<'de> Deserialize<'de> for Life {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match from.deserialize_u64(NUMBER)? {
            0 => Err(D::Error::invalid_value(Unexpected::Unsigned(0), &"at least 1 millisecond")),
            ms => Ok(Self(Duration::from_millis(ms))),
        }
    }
}
