//! JSON whose texts have bytes that JSON cannot have: they become the escapes of [`key_text`](crate::key_text).
//!
//! A program that passes on what its callers send may write such JSON, and an error for it might let the caller through.

use std::borrow::Cow;

/// Hexadecimal digits of an escaped UTF-16 unit.
const DIGITS: usize = 4;

/// Returns the body as JSON in UTF-8: each byte that belongs to no UTF-8, and each half of a surrogate pair
/// without its other half, is an escape.
#[must_use]
pub fn json(body: &[u8]) -> Cow<'_, [u8]> {
    let text = match std::str::from_utf8(body) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(with_escaped_bytes(body)),
    };
    match (with_lone_halves_escaped(&text), text) {
        (Some(whole), _) => Cow::Owned(whole.into_bytes()),
        (None, Cow::Owned(text)) => Cow::Owned(text.into_bytes()),
        (None, Cow::Borrowed(_)) => Cow::Borrowed(body),
    }
}

#[cold]
fn with_escaped_bytes(body: &[u8]) -> String {
    let mut text = String::with_capacity(body.len() + body.len() / 2);
    for chunk in body.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| push_escaped(*byte, &mut text));
    }
    text
}

/// The escape of a byte as a text in JSON has it: with two backslashes.
fn push_escaped(byte: u8, to: &mut String) {
    to.push_str(&format!("\\\\x{byte:02x}"));
}

/// The text with each half of a surrogate pair that lacks its other half replaced by the escapes of its three bytes in
/// generalized UTF-8; `None` if it has none.
fn with_lone_halves_escaped(text: &str) -> Option<String> {
    let has_surrogates = text.contains("\\ud") || text.contains("\\uD");
    if has_surrogates { replaced(text) } else { None }
}

#[cold]
fn replaced(text: &str) -> Option<String> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let length = match (unit(escape), escape.get(2 + DIGITS..).and_then(unit)) {
            // Both halves of one character, which stay as they are.
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 2 * (2 + DIGITS),
            (Some(half @ 0xd800..0xe000), _) => {
                found = true;
                let bytes = [0xe0 | half >> 12, 0x80 | half >> 6 & 0x3f, 0x80 | half & 0x3f];
                bytes.into_iter().for_each(|byte| push_escaped(byte as u8, &mut whole));
                rest = escape.get(2 + DIGITS..).unwrap_or_default();
                continue;
            }
            (Some(_), _) => 2 + DIGITS,
            // The next character may be a backslash, and begins no escape then.
            (None, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (kept, behind) = escape.split_at(length);
        whole.push_str(kept);
        rest = behind;
    }
    whole.push_str(rest);
    found.then_some(whole)
}

/// The UTF-16 unit of an escape such as `\u00fc` at the beginning of a text.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..DIGITS)?;
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| are_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_cannot_have_is_escaped_and_all_else_stays() {
        for (body, expected) in [
            (&b"{\"a\": \"\xff\"}"[..], r#"{"a": "\\xff"}"#),
            (br#"{"a": "\ud800"}"#, r#"{"a": "\\xed\\xa0\\x80"}"#),
            (br#"{"a": "\uDfFfb"}"#, r#"{"a": "\\xed\\xbf\\xbfb"}"#),
            (br#"{"a": "\udc00\ud800"}"#, r#"{"a": "\\xed\\xb0\\x80\\xed\\xa0\\x80"}"#),
            (br#"["\ud83e\udd80\ud83e"]"#, r#"["\ud83e\udd80\\xed\\xa0\\xbe"]"#),
            (b"\"\xff\\ud800\"", r#""\\xff\\xed\\xa0\\x80""#),
        ] {
            assert_eq!(*json(body), *expected.as_bytes());
        }
        for body in [
            &br#"{"a": "\\ud800", "b": "\ud83e\udd80", "c": "\u00fc"}"#[..],
            "[\"jürgen 🦀\", \"\\\"\", \"\\ud8".as_bytes(),
            br"\",
            br"\u",
            "\\ü\\ud".as_bytes(),
            b"",
        ] {
            assert!(matches!(json(body), Cow::Borrowed(_)), "{}", body.escape_ascii());
        }
    }
}
