//! The values of the fields of a question as written, each within its bounds: costs, times and the id of a request.
//! The readers of serde in `question.rs` and `item.rs` call these functions.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, Unexpected, Visitor};
use tidegate::{MAX_COST, Request};

use super::entries::Text;
use crate::limiters::LONGEST_LIFE;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

pub(super) const UNITS: BoundedNumber = BoundedNumber { what: "a cost", most: MAX_COST };
const WAIT_MS: BoundedNumber = BoundedNumber { what: "a wait in milliseconds", most: DAY_MS };
const LIFE_MS: BoundedNumber =
    BoundedNumber { what: "a life in milliseconds", most: LONGEST_LIFE.as_millis() as u64 };

/// Reads a number from 0 to the bound, in whatever type the reader chose for it.
#[derive(Clone, Copy)]
pub(super) struct BoundedNumber {
    /// The noun for the number, with its article.
    what: &'static str,
    most: u64,
}

impl BoundedNumber {
    fn read<E: Error>(self, number: Unexpected<'_>) -> Result<u64, E> {
        match number {
            Unexpected::Unsigned(number) if number <= self.most => Ok(number),
            other => Err(E::invalid_value(other, &self)),
        }
    }
}

impl Visitor<'_> for BoundedNumber {
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

impl<'de> DeserializeSeed<'de> for BoundedNumber {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<u64, D::Error> {
        from.deserialize_u64(self)
    }
}

pub(super) fn cost<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    UNITS.deserialize(from).map(Some)
}

/// Reads the longest time a request may wait, if its rules let it wait at all.
pub(super) fn max_wait<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    WAIT_MS.deserialize(from).map(|ms| Some(Duration::from_millis(ms)))
}

/// Reads the time until a reservation ends by itself.
pub(super) fn life<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    match LIFE_MS.deserialize(from)? {
        0 => Err(D::Error::invalid_value(Unexpected::Unsigned(0), &"at least 1 millisecond")),
        ms => Ok(Some(Duration::from_millis(ms))),
    }
}

/// Reads a text that is valid as the id of a request.
pub(super) fn request_id<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Text<'de>>, D::Error> {
    let id = Text::deserialize(from)?;
    Request::new(Request::DEFAULT_DOMAIN, &[]).with_id(&id.0).map_err(D::Error::custom)?;
    Ok(Some(id))
}
