//! The entries of a descriptor, so many at most.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess,
    Visitor,
};
use tidegate::OrderedEntries;

/// Most entries of one descriptor: each is compared with each, and rules look through them.
const MOST: usize = 64;

/// Entries in the order they are written, no name twice.
#[derive(Debug)]
pub(super) struct Entries(OrderedEntries);

impl Entries {
    /// As a descriptor wants them.
    pub(super) fn pairs(&self) -> Vec<(&str, &str)> {
        self.0.as_pairs()
    }

    /// Reads an object of which the first entry has been read already.
    pub(super) fn read<'de, A: MapAccess<'de>>(
        first: Option<(String, String)>,
        rest: A,
    ) -> Result<Self, A::Error> {
        let (name, value) = first.unzip();
        let bounded = Bounded { name, value, left: MOST, rest };
        OrderedEntries::deserialize(MapAccessDeserializer::new(bounded)).map(Self)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of text values, such as {\"channel\": \"alipay\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entries, A::Error> {
        Entries::read(None, map)
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Object)
    }
}

/// An object that gives out an entry that was read before, then the rest, so many at most.
struct Bounded<A> {
    name: Option<String>,
    value: Option<String>,
    left: usize,
    rest: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Bounded<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(left) = self.left.checked_sub(1) else {
            return self.end();
        };
        self.left = left;
        match self.name.take() {
            Some(name) => {
                let name: StringDeserializer<A::Error> = name.into_deserializer();
                seed.deserialize(name).map(Some)
            }
            None => self.rest.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.value.take() {
            Some(value) => {
                let value: StringDeserializer<A::Error> = value.into_deserializer();
                seed.deserialize(value)
            }
            None => self.rest.next_value_seed(seed),
        }
    }
}

impl<'de, A: MapAccess<'de>> Bounded<A> {
    /// The object has no more entries, or it has too many.
    fn end<K>(&mut self) -> Result<Option<K>, A::Error> {
        match self.rest.next_key::<IgnoredAny>()? {
            None => Ok(None),
            Some(_) => {
                Err(A::Error::custom(format_args!("a descriptor has at most {MOST} entries")))
            }
        }
    }
}
