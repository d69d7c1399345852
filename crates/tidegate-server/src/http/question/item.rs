//! One item of `descriptors` in a question: entries, or entries with a cost of their own.
//!
//! Both `{"user": "a"}` and `{"descriptor": {"user": "a"}, "cost": 2}` are items. The first value
//! distinguishes them, because the values of entries are texts; so an entry may be called
//! `descriptor` or `cost`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::entries::{BodyEntries, Text};
use super::values::UNITS;

const DESCRIPTOR: &str = "descriptor";
const COST: &str = "cost";

/// Entries, and their own cost if they have one.
#[derive(Debug)]
pub(super) struct Item<'b> {
    pub(super) entries: BodyEntries<'b>,
    pub(super) cost: Option<u64>,
}

impl<'b> Item<'b> {
    /// Entries without a cost of their own.
    const fn of(entries: BodyEntries<'b>) -> Self {
        Self { entries, cost: None }
    }
}

impl<'b> Deserialize<'b> for Item<'b> {
    fn deserialize<D: Deserializer<'b>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(ItemVisitor)
    }
}

/// Reads an [`Item`] in either form.
struct ItemVisitor;

impl<'b> Visitor<'b> for ItemVisitor {
    type Value = Item<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a descriptor, such as {\"user\": \"a\"} or {\"descriptor\": {\"user\": \"a\"}, \"cost\": 2}",
        )
    }

    fn visit_map<A: MapAccess<'b>>(self, mut map: A) -> Result<Item<'b>, A::Error> {
        let Some(name) = map.next_key::<Text<'b>>()? else {
            return BodyEntries::read(None, map).map(Item::of);
        };
        // The type of the first value decides, and not its name alone: an entry may be called `cost`, too.
        match (map.next_value()?, &*name.0) {
            (Piece::Text(value), _) => BodyEntries::read(Some((name, value)), map).map(Item::of),
            (Piece::Entries(entries), DESCRIPTOR) => wrapped(Some(entries), None, map),
            (Piece::Cost(cost), COST) => wrapped(None, Some(cost), map),
            _ => Err(A::Error::custom(format_args!(
                "entry `{0}` is not a text: expected such as {{\"{0}\": \"a\"}}",
                name.0
            ))),
        }
    }
}

/// The rest of an item with a cost of its own.
fn wrapped<'b, A: MapAccess<'b>>(
    mut entries: Option<BodyEntries<'b>>,
    mut cost: Option<u64>,
    mut map: A,
) -> Result<Item<'b>, A::Error> {
    while let Some(name) = map.next_key::<Text<'b>>()? {
        match &*name.0 {
            DESCRIPTOR if entries.is_none() => entries = Some(map.next_value()?),
            COST if cost.is_none() => cost = Some(map.next_value_seed(UNITS)?),
            DESCRIPTOR => return Err(A::Error::duplicate_field(DESCRIPTOR)),
            COST => return Err(A::Error::duplicate_field(COST)),
            // Entries are within `descriptor` here, so a misspelt field is never taken for an entry.
            other => return Err(A::Error::unknown_field(other, &[DESCRIPTOR, COST])),
        }
    }
    let entries = entries.ok_or_else(|| A::Error::missing_field(DESCRIPTOR))?;
    Ok(Item { entries, cost })
}

/// The first value of an item.
enum Piece<'b> {
    Text(Text<'b>),
    Entries(BodyEntries<'b>),
    Cost(u64),
}

impl<'b> Deserialize<'b> for Piece<'b> {
    fn deserialize<D: Deserializer<'b>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(PieceVisitor)
    }
}

/// Reads a [`Piece`] by its type.
struct PieceVisitor;

impl<'b> Visitor<'b> for PieceVisitor {
    type Value = Piece<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, for an entry of a descriptor")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'b str) -> Result<Piece<'b>, E> {
        Ok(Piece::Text(Text::borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Piece<'b>, E> {
        Ok(Piece::Text(Text::owned(text)))
    }

    fn visit_map<A: MapAccess<'b>>(self, map: A) -> Result<Piece<'b>, A::Error> {
        BodyEntries::read(None, map).map(Piece::Entries)
    }

    fn visit_u64<E: Error>(self, units: u64) -> Result<Piece<'b>, E> {
        UNITS.visit_u64(units).map(Piece::Cost)
    }

    fn visit_i64<E: Error>(self, units: i64) -> Result<Piece<'b>, E> {
        UNITS.visit_i64(units).map(Piece::Cost)
    }

    fn visit_f64<E: Error>(self, units: f64) -> Result<Piece<'b>, E> {
        UNITS.visit_f64(units).map(Piece::Cost)
    }
}
