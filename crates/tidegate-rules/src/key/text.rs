//! Bytes of keys as text, with the escape that every boundary shares.
//!
//! Requests, rules and reports have texts, but header fields and Redis clients may send any bytes.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Bytes of an escape: `\xff`.
const ESCAPE_BYTES: usize = 4;

/// Returns the bytes of a name or value as the text that stands for them in requests, rules and reports.
///
/// Text in UTF-8 stands for itself. Every byte that belongs to no UTF-8 becomes `\x` and two lower-case hexadecimal
/// digits. So that no two values share a text, a backslash becomes `\x5c` where it would begin such an escape, that is,
/// before `x5c` and before `x` with a number from `80` to `ff`. Every other backslash stays.
///
/// ```
/// use tidegate::key_text;
///
/// assert_eq!(key_text("jürgen".as_bytes()), "jürgen");
/// assert_eq!(key_text(br"CORP\ada"), r"CORP\ada");
/// assert_eq!(key_text(b"j\xfcrgen"), r"j\xfcrgen");
/// assert_eq!(key_text(br"j\xfcrgen"), r"j\x5cxfcrgen");
/// ```
#[inline]
#[must_use]
pub fn key_text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !has_escape(text) => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(bytes)),
    }
}

/// Returns the bytes that a text stands for: undoes the escapes of [`key_text`].
///
/// ```
/// use tidegate::{key_bytes, key_text};
///
/// assert_eq!(*key_bytes(r"j\xfcrgen"), *b"j\xfcrgen");
/// assert_eq!(*key_bytes(r"CORP\ada"), *br"CORP\ada");
/// assert_eq!(*key_bytes(&key_text(b"\xff\\xff")), *b"\xff\\xff");
/// ```
#[must_use]
pub fn key_bytes(text: &str) -> Cow<'_, [u8]> {
    if !has_escape(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(first) = rest.first() {
        let (byte, length) = match escaped_byte(rest) {
            Some(byte) => (byte, ESCAPE_BYTES),
            None => (*first, 1),
        };
        bytes.push(byte);
        rest = rest.get(length..).unwrap_or_default();
    }
    Cow::Owned(bytes)
}

/// Returns the canonical text of the bytes that `text` stands for, because an operator may write `\x5c` for any
/// backslash, and `\xc3\xbc` for `ü`.
///
/// ```
/// use tidegate::canonical_text;
///
/// assert_eq!(canonical_text(r"CORP\x5cada"), r"CORP\ada");
/// assert_eq!(canonical_text(r"j\xc3\xbcrgen"), "jürgen");
/// assert_eq!(canonical_text(r"\xff"), r"\xff");
/// ```
#[inline]
#[must_use]
pub fn canonical_text(text: &str) -> Cow<'_, str> {
    if has_escape(text) { Cow::Owned(escaped(&key_bytes(text))) } else { Cow::Borrowed(text) }
}

#[inline]
fn has_escape(text: &str) -> bool {
    text.contains('\\') && begins_escape(text.as_bytes())
}

#[cold]
fn begins_escape(text: &[u8]) -> bool {
    text.windows(ESCAPE_BYTES).any(|window| escaped_byte(window).is_some())
}

/// The byte of the escape that `text` begins with.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = text else { return None };
    let byte = digit(*high)? << 4 | digit(*low)?;
    (byte >= 0x80 || byte == b'\\').then_some(byte)
}

const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cold]
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + ESCAPE_BYTES);
    for chunk in bytes.utf8_chunks() {
        // An escape cannot reach from this chunk into the next, because that begins with a backslash.
        for (at, char) in chunk.valid().char_indices() {
            match chunk.valid().as_bytes().get(at..).and_then(escaped_byte) {
                Some(_) => text.push_str("\\x5c"),
                None => text.push(char),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a text cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes that are likely to collide: parts of escapes, of UTF-8, and others.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let parts = [&b"\\"[..], b"x", b"5c", b"ff", b"8", b"F", b"\xff", b"\xc3", b"\xbc", b"a"];
        let parts = parts.map(<[u8]>::to_vec).to_vec();
        let part = prop_oneof![proptest::sample::select(parts), any::<Vec<u8>>()];
        proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    #[test]
    fn ordinary_values_stay_as_they_are() {
        for text in [
            "",
            "ada",
            "jürgen",
            "日本",
            "🦀",
            "%FF%2e",
            "a b",
            "\0",
            "\u{7f}\r\n",
            "\u{202e}dcba",
            "\u{61c}",
            r"CORP\ada",
            r"\\server\share",
            r"\x",
            r"\x4",
            r"\x41",
            r"\xFF",
            r"\xf",
            r"\x5C",
            r"C:\xampp",
            "\\",
        ] {
            assert_eq!(key_text(text.as_bytes()), text);
            assert!(matches!(key_text(text.as_bytes()), Cow::Borrowed(_)), "{text}");
            assert_eq!(*key_bytes(text), *text.as_bytes());
            assert_eq!(canonical_text(text), text);
        }
    }

    #[test]
    fn what_is_no_utf_8_or_looks_escaped_is_escaped() {
        for (bytes, text) in [
            (&b"\xff"[..], r"\xff"),
            (b"\xc3", r"\xc3"),
            (b"\xc3\xbc\xbc", r"ü\xbc"),
            (b"\xed\xa0\x80", r"\xed\xa0\x80"),
            (b"\\\xff", r"\\xff"),
            (br"\xff", r"\x5cxff"),
            (br"\\xff", r"\\x5cxff"),
            (br"\x5c", r"\x5cx5c"),
            (b"\\x\xff", r"\x\xff"),
            (b"\\x8\xff", r"\x8\xff"),
        ] {
            assert_eq!(key_text(bytes), text);
            assert_eq!(*key_bytes(text), *bytes, "{text}");
        }
    }

    proptest! {
        #[test]
        fn bytes_come_back_from_their_text_so_no_two_share_one(bytes in bytes()) {
            let text = key_text(&bytes);
            prop_assert_eq!(&*key_bytes(&text), &bytes[..]);
            prop_assert_eq!(&*canonical_text(&text), &*text);
        }

        #[test]
        fn each_text_stands_for_the_bytes_of_its_canonical_one(bytes in bytes()) {
            let text = String::from_utf8_lossy(&bytes);
            let canonical = canonical_text(&text);
            prop_assert_eq!(key_bytes(&canonical), key_bytes(&text));
            prop_assert_eq!(&*canonical_text(&canonical), &*canonical);
        }
    }
}
