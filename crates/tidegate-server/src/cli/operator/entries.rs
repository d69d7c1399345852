//! A descriptor on the command line: entries as `NAME=VALUE`, for `peek`, `reset` and `tail`.
//!
//! Reports print a character that a terminal obeys as the escapes of its bytes, such as `\x0a`, and a command reads
//! these escapes, so that a key can be copied from a report into a command.

use std::fmt::Write;

use serde::Serialize;
use tidegate::canonical_text;
use tidegate::printable::is_obeyed;

use crate::ordered_map::OrderedMap;

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct EntryArg {
    name: String,
    value: String,
}

/// Reads `NAME=VALUE`; the value may have further `=`, and may be empty.
pub(super) fn parse(text: &str) -> Result<EntryArg, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(EntryArg { name: unescaped(name), value: unescaped(value) })
        }
        _ => Err("expected an entry as NAME=VALUE, such as user=ada".to_owned()),
    }
}

/// The body of a request.
pub(super) fn body(domain: &str, entries: &[EntryArg], cost: Option<u64>) -> String {
    let entries: Vec<_> = entries.iter().map(|one| (one.name.clone(), one.value.clone())).collect();
    let body = DescriptorBody { cost, descriptor: OrderedMap(&entries), domain };
    serde_json::to_string(&body).unwrap_or_default()
}

/// The body of a peek or of a reset.
#[derive(Serialize)]
struct DescriptorBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    descriptor: OrderedMap<'a>,
    domain: &'a str,
}

impl EntryArg {
    /// The entry as a parameter of a query.
    pub(super) fn parameter(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}

/// The entries for a person: `user=ada, path=/login`.
pub(super) fn shown(entries: &[EntryArg]) -> String {
    let entries: Vec<_> = entries.iter().map(|one| printed(&one.name, &one.value)).collect();
    if entries.is_empty() { "no entries".to_owned() } else { entries.join(", ") }
}

/// An entry as [`parse`] takes it back, without a character that a terminal obeys.
pub(super) fn printed(name: &str, value: &str) -> String {
    format!("{}={}", escaped(name).replace('=', EQUALS), escaped(value))
}

/// A text without a character that a terminal obeys, from which [`unescaped`] makes the same text.
fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if is_obeyed(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a text cannot fail.
                let _ = write!(plain, "\\x{byte:02x}");
            }
        } else if text.get(at..).and_then(escape_of).is_some() {
            // A backslash that would begin an escape is itself escaped, so that it is read back as it was.
            plain.push_str("\\x5c");
        } else {
            plain.push(c);
        }
    }
    plain
}

/// The text that was escaped, in its canonical form.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (c, length) = match escape_of(rest) {
            Some(escaped) => (escaped, ESCAPE_BYTES),
            None => (c, c.len_utf8()),
        };
        plain.push(c);
        rest = rest.get(length..).unwrap_or_default();
    }
    // All other escapes are escapes of keys everywhere.
    canonical_text(&plain).into_owned()
}

/// The escape of the sign that ends a name.
const EQUALS: &str = "\\x3d";
/// Bytes of an escape: `\x0a`.
const ESCAPE_BYTES: usize = 4;

/// The character whose escape `text` begins with: a control character in ASCII, or the sign that ends a name.
fn escape_of(text: &str) -> Option<char> {
    let digits = text.strip_prefix("\\x")?.get(..2)?;
    let is_escape = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let byte = u8::from_str_radix(digits, 16).ok()?;
    let is_escaped = byte.is_ascii_control() || byte == b'=';
    (is_escape && is_escaped).then(|| char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_cut_at_its_first_equals_sign() {
        let entries: Vec<_> =
            ["q=a=b", "user="].into_iter().map(|one| parse(one).unwrap()).collect();
        assert_eq!(shown(&entries), "q=a=b, user=");
        let expected = r#"{"cost":0,"descriptor":{"q":"a=b","user":""},"domain":"d"}"#;
        let twice = ["b=1", "a=2", "b=3"].map(|one| parse(one).unwrap());
        assert!(body("d", &twice, None).contains(r#"{"b":"1","a":"2","b":"3"}"#));
        assert_eq!(body("d", &entries, Some(0)), expected);
        for wrong in ["user", "=ada", ""] {
            assert!(parse(wrong).unwrap_err().contains("NAME=VALUE"));
        }
    }

    #[test]
    fn an_entry_that_a_report_prints_is_taken_back() {
        for (bytes, expected) in [
            (&b"ada"[..], "ada"),
            (b"a\0b\n", r"a\x00b\x0a"),
            (b"\x7f\x1b[2J", r"\x7f\x1b[2J"),
            ("\u{9b}\u{202e}\u{e0041}".as_bytes(), r"\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81"),
            (br"\x0a", r"\x5cx0a"),
            (br"\\x0a", r"\\x5cx0a"),
            (br"\x5cx0a", r"\x5cx5cx0a"),
            (br"\x0A\x4\n", r"\x0A\x4\n"),
            (b"\xff\x00", r"\xff\x00"),
            (br"\xff", r"\x5cxff"),
            (br"\x3d", r"\x5cx3d"),
            ("jürgen 日本".as_bytes(), "jürgen 日本"),
        ] {
            let text = tidegate::key_text(bytes);
            let shown = printed(&text, &text);
            assert_eq!(shown, format!("{expected}={expected}"));
            let entry = parse(&shown).unwrap();
            assert_eq!([entry.name, entry.value], [&*text, &*text], "{shown}");
        }
        let shown = printed("a=b", "c=d");
        assert_eq!(shown, r"a\x3db=c=d");
        let entry = parse(&shown).unwrap();
        assert_eq!([entry.name, entry.value], ["a=b", "c=d"]);
    }
}
