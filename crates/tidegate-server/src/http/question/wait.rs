//! The time for which an answer may be held, as written: whole milliseconds.

use serde::de::{Deserialize, Deserializer};
use std::time::Duration;

use super::whole::Whole;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const NUMBER: Whole = Whole { what: "a wait in milliseconds", most: DAY_MS };

/// The longest time a request may wait, if its rules let it wait at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MaxWait(Duration);

impl MaxWait {
    /// No wait.
    pub(super) const NONE: Self = Self(Duration::ZERO);

    pub(super) const fn micros(self) -> Duration {
        self.0
    }
}

impl<'de> Deserialize<'de> for MaxWait {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u64(NUMBER).map(|ms| Self(Duration::from_millis(ms)))
    }
}
