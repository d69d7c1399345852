//! Text from clients or files as it is printed: without control characters.

use std::borrow::Cow;

/// The text with every character escaped that a terminal would interpret, except line feeds and
/// tabs.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |c| obeyed(c) && c != '\n' && c != '\t')
}

/// The text as one line: line feeds are escaped as well.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| obeyed(c) && c != '\t')
}

/// Returns whether a terminal interprets a character instead of showing it: control characters, and those
/// that change the direction of text.
fn obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        let said = "a\u{1b}[2Jb\r\u{7}\u{9b}c\u{202e}d\u{0}\te\nf é";
        assert_eq!(text(said), r"a\u{1b}[2Jb\r\u{7}\u{9b}c\u{202e}d\u{0}".to_owned() + "\te\nf é");
        assert_eq!(line(said), r"a\u{1b}[2Jb\r\u{7}\u{9b}c\u{202e}d\u{0}".to_owned() + "\te\\nf é");
        assert!(matches!(text("plain\ttext\n"), Cow::Borrowed(_)));
    }
}
