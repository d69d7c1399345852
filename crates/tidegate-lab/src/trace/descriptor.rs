//! A descriptor written as a JSON object, with the order of its entries kept.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::event::Entry;

/// The entries of a descriptor in the order they were written.
///
/// Reads a JSON object (or any map of strings to strings) without sorting it. Two entries of one
/// name, and values that are not strings, are refused.
///
/// ```
/// use tidegate_lab::trace::Descriptor;
/// let d: Descriptor = serde_json::from_str(r#"{"path": "/", "ip": "192.0.2.1"}"#)?;
/// assert_eq!(d.0[0], ("path".to_owned(), "/".to_owned()));
/// assert!(serde_json::from_str::<Descriptor>(r#"{"a": "1", "a": "2"}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Descriptor(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Descriptor {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Entries(entries) = Entries::deserialize(from)?;
        Ok(Self(entries.into_iter().map(|(k, v)| (k.into_owned(), v.into_owned())).collect()))
    }
}

/// The entries of a descriptor, borrowed from the text they were read from.
#[derive(Debug)]
pub(super) struct Entries<'a>(pub(super) Vec<Entry<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(EntriesVisitor).map(Entries)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Vec<Entry<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and strings, such as {\"key\": \"a\"}")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(4).min(64));
        while let Some((Text(name), Text(value))) = map.next_entry()? {
            entries.push((name, value));
        }
        match first_duplicate(&entries) {
            Some(name) => Err(M::Error::custom(format_args!(
                "the descriptor has the entry {name:?} twice, expected each name once"
            ))),
            None => Ok(entries),
        }
    }
}

/// Compares a few entries with each other, and many with a set, so that a line of a hundred
/// thousand names does not take quadratic time.
fn first_duplicate<'e>(entries: &'e [Entry<'_>]) -> Option<&'e str> {
    const FEW: usize = 16;
    if entries.len() <= FEW {
        let twice = |(i, (name, _)): (usize, &'e Entry<'_>)| {
            entries[..i].iter().any(|(earlier, _)| earlier == name).then_some(name.as_ref())
        };
        return entries.iter().enumerate().find_map(twice);
    }
    let mut seen = HashSet::with_capacity(entries.len());
    entries.iter().map(|(name, _)| name.as_ref()).find(|name| !seen.insert(*name))
}

/// A string, borrowed if the text has it without escapes.
#[derive(Debug)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(TextVisitor).map(Text)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string (in double quotes)")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(json: &str) -> Result<Vec<String>, String> {
        let read = serde_json::from_str::<Descriptor>(json).map_err(|e| e.to_string())?;
        Ok(read.0.into_iter().map(|(name, _)| name).collect())
    }

    fn many(names: impl Iterator<Item = usize>) -> String {
        let entries: Vec<String> = names.map(|i| format!("\"n{i}\": \"v\"")).collect();
        format!("{{{}}}", entries.join(","))
    }

    #[test]
    fn order_is_kept() {
        assert_eq!(names(r#"{"z": "1", "a": "2", "m": "3"}"#).unwrap(), ["z", "a", "m"]);
        assert_eq!(names("{}").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn escapes_are_decoded() {
        let read: Descriptor = serde_json::from_str(r#"{"a\n": "\u00e9\""}"#).unwrap();
        assert_eq!(read.0, [("a\n".to_owned(), "é\"".to_owned())]);
    }

    #[test]
    fn a_name_twice_is_refused_also_among_many_and_when_escaped() {
        assert!(names(r#"{"a": "1", "b": "2", "a": "1"}"#).unwrap_err().contains("\"a\" twice"));
        assert!(names(r#"{"a": "1", "\u0061": "1"}"#).unwrap_err().contains("\"a\" twice"));
        let text = many((0..40_000).chain([7]));
        assert!(names(&text).unwrap_err().contains("\"n7\" twice"));
        assert_eq!(names(&many(0..40_000)).unwrap().len(), 40_000);
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
        let read: Descriptor = serde_json::from_value(value).unwrap();
        assert_eq!(read.0, [("a".to_owned(), "1".to_owned())]);
    }
}
