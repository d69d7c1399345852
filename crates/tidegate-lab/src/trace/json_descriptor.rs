//! A descriptor written as a JSON object, with the order of its entries kept.
//!
//! `ndjson.rs` reads the descriptors of events by it. Its texts (`JsonText`) are read in logs as well.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use tidegate::canonical_text;

use super::event::NameAndValue;

/// The entries of a descriptor in the order they were written.
///
/// Reads a JSON object (or any map of strings to strings) without sorting it. A name may occur more than
/// once, as in a request. Values that are not strings are refused.
///
/// ```
/// use tidegate_lab::trace::JsonDescriptor;
/// let d: JsonDescriptor = serde_json::from_str(r#"{"path": "/", "ip": "192.0.2.1"}"#)?;
/// assert_eq!(d.0[0], ("path".to_owned(), "/".to_owned()));
/// let d: JsonDescriptor = serde_json::from_str(r#"{"a": "1", "a": "2"}"#)?;
/// assert_eq!(d.0.len(), 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct JsonDescriptor(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for JsonDescriptor {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let DescriptorEntries(entries) = DescriptorEntries::deserialize(from)?;
        Ok(Self(entries.into_iter().map(|(k, v)| (k.into_owned(), v.into_owned())).collect()))
    }
}

/// The entries of a descriptor, borrowed from the text they were read from.
#[derive(Debug)]
pub(super) struct DescriptorEntries<'a>(pub(super) Vec<NameAndValue<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for DescriptorEntries<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(EntriesVisitor).map(DescriptorEntries)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Vec<NameAndValue<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and strings, such as {\"key\": \"a\"}")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        // The hint may be a number of the input, which must not choose the memory.
        let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(4).min(64));
        while let Some((JsonText(name), JsonText(value))) = map.next_entry()? {
            entries.push((name, value));
        }
        Ok(entries)
    }
}

/// A string, borrowed if the text has it without escapes: the canonical text of the bytes that it stands for.
#[derive(Debug)]
pub(super) struct JsonText<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(TextVisitor).map(JsonText)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string (in double quotes)")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(canonical_text(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(canonical_text(text).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(json: &str) -> Result<Vec<String>, String> {
        let read = serde_json::from_str::<JsonDescriptor>(json).map_err(|e| e.to_string())?;
        Ok(read.0.into_iter().map(|(name, _)| name).collect())
    }

    #[test]
    fn order_is_kept() {
        assert_eq!(names(r#"{"z": "1", "a": "2", "m": "3"}"#).unwrap(), ["z", "a", "m"]);
        assert_eq!(names("{}").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn escapes_are_decoded() {
        let read: JsonDescriptor = serde_json::from_str(r#"{"a\n": "\u00e9\""}"#).unwrap();
        assert_eq!(read.0, [("a\n".to_owned(), "é\"".to_owned())]);
    }

    #[test]
    fn a_name_may_occur_more_than_once() {
        assert_eq!(names(r#"{"a": "1", "b": "2", "a": "1"}"#).unwrap(), ["a", "b", "a"]);
        assert_eq!(names(r#"{"a": "1", "\u0061": "1"}"#).unwrap(), ["a", "a"]);
    }

    /// Bytes have one canonical text at the listeners, and here too.
    #[test]
    fn bytes_have_the_one_text_that_the_listeners_give_them() {
        let read: JsonDescriptor = serde_json::from_str(r#"{"user": "j\\xc3\\xbcrgen"}"#).unwrap();
        assert_eq!(read.0, [("user".to_owned(), "jürgen".to_owned())]);
        let read: JsonDescriptor =
            serde_json::from_value(serde_json::json!({r"CORP\x5cada": "1"})).unwrap();
        assert_eq!(read.0, [(r"CORP\ada".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn values_that_are_not_strings_are_refused() {
        for value in ["1", "1.5", "true", "null", "[]", "{}"] {
            let error = names(&format!("{{\"a\": {value}}}")).unwrap_err();
            assert!(error.contains("expected a string"), "{value}: {error}");
        }
    }

    #[test]
    fn reads_from_a_value_as_well_as_from_text() {
        let value = serde_json::json!({"a": "1"});
        let read: JsonDescriptor = serde_json::from_value(value).unwrap();
        assert_eq!(read.0, [("a".to_owned(), "1".to_owned())]);
    }
}
