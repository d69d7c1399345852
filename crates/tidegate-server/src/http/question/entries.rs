//! The entries of a descriptor, so many at most.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Most entries of one descriptor: each is compared with each, and rules look through them.
const MOST: usize = 64;

/// A text: that of the body itself where it is written without escapes.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Text<'b>(#[serde(borrow)] pub(super) Cow<'b, str>);

/// Entries in the order they are written, no name twice.
#[derive(Debug)]
pub(super) struct Entries<'b>(Vec<(Text<'b>, Text<'b>)>);

impl<'b> Entries<'b> {
    /// As a descriptor wants them.
    pub(super) fn pairs(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (&*name.0, &*value.0)).collect()
    }

    /// Reads an object of which the first entry has been read already.
    pub(super) fn read<A: MapAccess<'b>>(
        first: Option<(Text<'b>, Text<'b>)>,
        mut rest: A,
    ) -> Result<Self, A::Error> {
        let mut entries = Self(Vec::from_iter(first));
        while let Some(name) = rest.next_key()? {
            entries.check(&name)?;
            entries.0.push((name, rest.next_value()?));
        }
        Ok(entries)
    }

    /// Whether there may be one more entry, of this name.
    fn check<E: Error>(&self, next: &Text<'_>) -> Result<(), E> {
        if self.0.len() == MOST {
            return Err(E::custom(format_args!("a descriptor has at most {MOST} entries")));
        }
        if self.0.iter().any(|(earlier, _)| earlier.0 == next.0) {
            return Err(E::custom(format_args!("entry `{}` is given twice", next.0)));
        }
        Ok(())
    }
}

struct Object;

impl<'b> Visitor<'b> for Object {
    type Value = Entries<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of text values, such as {\"channel\": \"alipay\"}")
    }

    fn visit_map<A: MapAccess<'b>>(self, map: A) -> Result<Entries<'b>, A::Error> {
        Entries::read(None, map)
    }
}

impl<'b> Deserialize<'b> for Entries<'b> {
    fn deserialize<D: Deserializer<'b>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Object)
    }
}
