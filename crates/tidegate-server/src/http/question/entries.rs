//! The entries of a descriptor in a body of JSON: names and values in their order, with a bound on their number.
//! `question.rs` and `item.rs` read them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use smallvec::SmallVec;
use tidegate::canonical_text;

/// The largest number of entries of one descriptor: rules search them.
const MOST: usize = 64;

/// Names and values, in the form of a descriptor.
pub(super) type Pairs<'a> = SmallVec<[(&'a str, &'a str); 2]>;

/// A text, borrowed from the body if it has no escapes. Equal keys have equal texts, because the text is in its
/// canonical form.
#[derive(Debug)]
pub(super) struct Text<'b>(pub(super) Cow<'b, str>);

impl<'b> Text<'b> {
    pub(super) fn borrowed(text: &'b str) -> Self {
        Self(canonical_text(text))
    }

    pub(super) fn owned(text: &str) -> Self {
        Self(Cow::Owned(canonical_text(text).into_owned()))
    }
}

/// Reads a [`Text`]: a text without escapes is borrowed.
struct Texts;

impl<'b> Visitor<'b> for Texts {
    type Value = Text<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'b str) -> Result<Text<'b>, E> {
        Ok(Text::borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'b>, E> {
        Ok(Text::owned(text))
    }
}

impl<'b> Deserialize<'b> for Text<'b> {
    fn deserialize<D: Deserializer<'b>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Texts)
    }
}

/// The name and the value of an entry.
type BodyEntry<'b> = (Text<'b>, Text<'b>);

/// Entries in their order. Most descriptors have one, which needs no allocation.
#[derive(Debug)]
pub(super) struct BodyEntries<'b> {
    first: Option<BodyEntry<'b>>,
    others: Vec<BodyEntry<'b>>,
}

impl<'b> BodyEntries<'b> {
    /// The entries in the form of a descriptor.
    pub(super) fn pairs(&self) -> Pairs<'_> {
        let all = self.first.iter().chain(&self.others);
        all.map(|(name, value)| (&*name.0, &*value.0)).collect()
    }

    /// Reads an object whose first entry was already read.
    pub(super) fn read<A: MapAccess<'b>>(
        first: Option<BodyEntry<'b>>,
        mut rest: A,
    ) -> Result<Self, A::Error> {
        let mut entries = Self { first, others: Vec::new() };
        while let Some(name) = rest.next_key()? {
            // `others` is empty until there is a first entry, so the sum is the number of entries.
            if entries.others.len() + 1 == MOST {
                let error = format_args!("a descriptor has at most {MOST} entries");
                return Err(A::Error::custom(error));
            }
            let entry = (name, rest.next_value()?);
            match &entries.first {
                None => entries.first = Some(entry),
                Some(_) => entries.others.push(entry),
            }
        }
        Ok(entries)
    }
}

/// Reads [`BodyEntries`].
struct BodyEntriesVisitor;

impl<'b> Visitor<'b> for BodyEntriesVisitor {
    type Value = BodyEntries<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of text values, such as {\"channel\": \"alipay\"}")
    }

    fn visit_map<A: MapAccess<'b>>(self, map: A) -> Result<BodyEntries<'b>, A::Error> {
        BodyEntries::read(None, map)
    }
}

impl<'b> Deserialize<'b> for BodyEntries<'b> {
    fn deserialize<D: Deserializer<'b>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(BodyEntriesVisitor)
    }
}
