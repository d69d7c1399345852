//! The lines that could not be read: a count of all, and the first few in detail.
//!
//! Such a line costs no other line. A report of a trace names the first few.

use std::borrow::Cow;
use std::fmt;

use tidegate::printable;

/// Why a line cannot be read.
pub(super) type BadLineReason = Cow<'static, str>;

/// The number of bad lines that are described; the rest are only counted.
const DESCRIBED: usize = 20;

/// The part of a bad line that is shown, in characters.
const EXCERPT_CHARS: usize = 80;

/// The largest length of a reason, in characters: some quote a name from the line.
const REASON_CHARS: usize = 300;

/// The lines of a trace that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BadLines {
    /// Their number.
    pub count: u64,
    /// The first of them, at most 20, in order of the input.
    pub first: Vec<BadLine>,
}

/// One line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Counted from 1, blank lines included.
    pub line_number: u64,
    /// The error, and the expected form.
    pub reason: String,
    /// The first 80 characters of the line; unprintable characters are escaped, so it is safe on a
    /// terminal. Empty if damage to compressed data left nothing of the line.
    pub excerpt: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line_number, self.reason)?;
        if self.excerpt.is_empty() { Ok(()) } else { write!(f, ": {}", self.excerpt) }
    }
}

impl BadLines {
    pub(super) fn add(&mut self, line_number: u64, reason: BadLineReason, line: &[u8]) {
        self.count += 1;
        if self.first.len() < DESCRIBED {
            let reason = shortened(&reason, REASON_CHARS);
            let excerpt = excerpt(line);
            self.first.push(BadLine { line_number, reason, excerpt });
        }
    }

    /// Appends the bad lines of a later piece, whose lines are counted from after `lines_before`.
    pub(super) fn append(&mut self, piece: Self, lines_before: u64) {
        self.count += piece.count;
        let space = DESCRIBED.saturating_sub(self.first.len());
        self.first.extend(
            piece
                .first
                .into_iter()
                .take(space)
                .map(|bad| BadLine { line_number: lines_before + bad.line_number, ..bad }),
        );
    }
}

fn excerpt(line: &[u8]) -> String {
    // A character takes at most four bytes, so this prefix holds one character too many.
    let start = &line[..line.len().min(4 * (EXCERPT_CHARS + 1))];
    shortened(&text(start), EXCERPT_CHARS)
}

/// At most `chars_max` characters of the text, made printable, and a mark if there are more.
fn shortened(text: &str, chars_max: usize) -> String {
    let printable = printable::line(text);
    let mut chars = printable.chars();
    let mut shown: String = chars.by_ref().take(chars_max).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

/// The bytes as text; each byte that is not part of valid UTF-8 becomes `\xhh`, as web servers
/// write it.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.utf8_chunks().map(escaped_chunk).collect()),
    }
}

fn escaped_chunk(chunk: std::str::Utf8Chunk<'_>) -> String {
    let mut text = chunk.valid().to_owned();
    for byte in chunk.invalid() {
        text.push_str(&format!("\\x{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_twenty_are_named() {
        let mut bad = BadLines::default();
        (1..=25).for_each(|n| bad.add(n, "because".into(), b"line"));
        assert_eq!((bad.count, bad.first.len()), (25, 20));
        assert_eq!(bad.first[19].line_number, 20);
        assert_eq!(bad.first[0].to_string(), "line 1: because: line");
    }

    #[test]
    fn those_of_a_later_piece_follow_under_their_own_numbers() {
        let (mut bad, mut later) = (BadLines::default(), BadLines::default());
        (1..=19).for_each(|n| bad.add(n, "because".into(), b"line"));
        (2..=4).for_each(|n| later.add(n, "because".into(), b"line"));
        bad.append(later, 100);
        assert_eq!((bad.count, bad.first.len(), bad.first[19].line_number), (22, 20, 102));
    }

    #[test]
    fn reasons_are_short_and_safe_to_print() {
        let mut bad = BadLines::default();
        bad.add(1, ("\u{1b}".to_owned() + &"x".repeat(1 << 20)).into(), b"line");
        assert!(bad.first[0].reason.starts_with("\\u{1b}xxx"));
        assert_eq!(bad.first[0].reason.chars().count(), 301);
    }

    #[test]
    fn excerpts_are_short_and_safe_to_print() {
        assert_eq!(excerpt(b"a\x1b[31m\tb"), "a\\u{1b}[31m\\tb");
        assert_eq!(excerpt(&[0xff, b'a', 0xc3, 0xa9]), "\\xffaé");
        assert_eq!(excerpt(&[b'x'; 80]), "x".repeat(80));
        assert_eq!(excerpt(&[b'x'; 81]), "x".repeat(80) + "…");
        assert_eq!(excerpt(&vec![0xff; 1 << 20]).chars().count(), 81);
        assert_eq!(excerpt("é".repeat(500).as_bytes()), "é".repeat(80) + "…");
        assert_eq!(excerpt(b""), "");
    }
}
