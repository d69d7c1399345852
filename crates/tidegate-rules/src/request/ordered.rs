//! Entries of a descriptor from JSON or TOML, in their own order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::key::canonical_text;

/// The entries of a descriptor, read from an object such as `{"channel": "alipay"}` in its own order.
///
/// A repeated name is a further entry. A value that is not text is an error. Texts stand for bytes, as
/// [`key_text`](crate::key::key_text) writes them.
///
/// ```
/// let read: Result<tidegate::OrderedEntries, _> = serde_json::from_str(r#"{"b": "1", "a": "2", "b": "3"}"#);
/// assert_eq!(read.unwrap().as_pairs(), [("b", "1"), ("a", "2"), ("b", "3")]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderedEntries(Vec<(String, String)>);

impl OrderedEntries {
    /// The entries in the form of a [`Descriptor`](super::Descriptor).
    #[must_use]
    pub fn as_pairs(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The owned entries.
    #[must_use]
    pub fn into_inner(self) -> Vec<(String, String)> {
        self.0
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = OrderedEntries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of text values, such as {\"channel\": \"alipay\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedEntries, A::Error> {
        let mut entries: Vec<(String, String)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, String>()? {
            let [name, value] = [name, value].map(|text| canonical_text(&text).into_owned());
            entries.push((name, value));
        }
        Ok(OrderedEntries(entries))
    }
}

impl<'de> Deserialize<'de> for OrderedEntries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Entries)
    }
}
