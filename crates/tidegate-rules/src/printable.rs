//! Text of strangers as it is printed: without characters that a terminal, or a reader of lines, obeys.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns whether a terminal or a reader of lines obeys a character instead of showing it: control characters,
/// separators of lines and paragraphs, marks that turn or shape text, and those that hide in it.
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// Returns a text of several lines with every character escaped that [is obeyed](is_obeyed), except line feeds and
/// tabs.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_obeyed(c) && c != '\n' && c != '\t', in_text)
}

/// Returns the text as a part of one line: line feeds and tabs are escaped as well.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_obeyed, in_text)
}

/// Returns JSON with the same escaped in the notation of JSON, so that a parser reads the same values. JSON has none of
/// these characters outside its texts but line feeds and tabs, which stay.
#[must_use]
pub fn json(json: &str) -> Cow<'_, str> {
    escaped(json, |c| is_obeyed(c) && c != '\n' && c != '\t' && c != '\r', in_json)
}

fn in_text(c: char, to: &mut String) {
    to.extend(c.escape_default());
}

fn in_json(c: char, to: &mut String) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a text cannot fail.
        let _ = write!(to, "\\u{unit:04x}");
    }
}

fn escaped(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    escape: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) { escape(c, &mut plain) } else { plain.push(c) }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_or_a_reader_of_lines_obeys_is_escaped() {
        let said = "a\u{1b}[2Jb\r\u{7}\u{9b}c\u{202e}d\u{0}\te\nf é";
        assert_eq!(text(said), r"a\u{1b}[2Jb\r\u{7}\u{9b}c\u{202e}d\u{0}".to_owned() + "\te\nf é");
        assert_eq!(line(said), r"a\u{1b}[2Jb\r\u{7}\u{9b}c\u{202e}d\u{0}\te\nf é");
        assert_eq!(line("\u{61c}\u{85}\u{2028}\u{2029}"), r"\u{61c}\u{85}\u{2028}\u{2029}");
        assert_eq!(line("\u{200b}\u{e0041}\u{feff}"), r"\u{200b}\u{e0041}\u{feff}");
        assert!(matches!(text("plain\ttext\n"), Cow::Borrowed(_)));
        assert!(matches!(line("नमस्ते 👩\u{200d}🚀 ü"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_has_the_same_values_as_before() {
        let values = "\u{7f}\u{9b}2J\u{202e}\u{61c}\u{2028}\u{e0041}é\\ \"";
        let written = format!("{{\"a\":{:?}}}\n", "x").replace('x', values);
        let written = written.replace("\\ \"\"", "\\\\ \\\"\"");
        let escaped = json(&written);
        assert_eq!(
            escaped,
            "{\"a\":\"\\u007f\\u009b2J\\u202e\\u061c\\u2028\\udb40\\udc41é\\\\ \\\"\"}\n"
        );
    }
}
