//! The text of a file, its lines, and the errors found in it so far.
//!
//! An error is a range of bytes with a message. Lines, columns and excerpts are worked out at the end.

use std::fmt::Display;
use std::ops::Range;

use tidegate_core::text::credentials;

use super::diagnostic::{ConfigError, ConfigErrors, Excerpt};
use super::secret_fields;

/// A position: a range of bytes of the text.
pub(super) type TextSpan = Range<usize>;

/// A text and the positions of its lines.
pub(super) struct ConfigSource<'t> {
    file: &'t str,
    text: &'t str,
    line_starts: Vec<usize>,
    /// The values that no message shows.
    secrets: Vec<TextSpan>,
}

impl<'t> ConfigSource<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Self {
        let first = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let others = text.match_indices('\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(first).chain(others).collect();
        Self { file, text, line_starts, secrets: secret_fields::find(text) }
    }

    /// The number of the line a byte is on, counted from 1.
    pub(super) fn line_number(&self, at: usize) -> usize {
        // A position within a byte order mark is before the first line, and counts as on it.
        self.line_starts.partition_point(|start| *start <= at).max(1)
    }

    /// A line without its end.
    fn line(&self, number: usize) -> &'t str {
        let start = self.line_starts.get(number - 1).copied().unwrap_or_default();
        let rest = self.text.get(start..).unwrap_or_default();
        let line = rest.split_once('\n').map_or(rest, |(line, _)| line);
        line.strip_suffix('\r').unwrap_or(line)
    }

    /// An error at a position of the text.
    pub(super) fn error(&self, span: &TextSpan, message: String) -> ConfigError {
        let number = self.line_number(span.start);
        let line = self.line(number);
        let line_start = self.line_starts.get(number - 1).copied().unwrap_or_default();
        let start = line.floor_char_boundary(span.start.saturating_sub(line_start));
        let end = line.floor_char_boundary(span.end.saturating_sub(line_start));
        let (before, from) = line.split_at(start);
        let column = before.chars().count();
        let marked = end.saturating_sub(start);
        let width = from.get(..marked).unwrap_or_default().chars().count();
        ConfigError {
            file: self.file.to_owned(),
            line: number,
            column: column + 1,
            message,
            excerpt: Some(Excerpt::new(line, column, width, self.secret_of(line, line_start))),
        }
    }

    /// The part of a line that is not shown, as bytes of the line.
    fn secret_of(&self, line: &str, start: usize) -> Option<TextSpan> {
        let end = start + line.len();
        // Also a value that begins on an earlier line or ends on a later line.
        let of_fields = self.secrets.iter().filter(|span| span.start <= end && start < span.end);
        let of_fields =
            of_fields.map(|span| span.start.saturating_sub(start)..span.end.min(end) - start);
        // One range over all secrets of the line, which hides the text between them as well.
        of_fields.chain(credentials(line)).reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
    }
}

/// The errors found so far, in any order.
pub(super) struct ConfigReport<'s> {
    source: &'s ConfigSource<'s>,
    found: Vec<(TextSpan, String)>,
}

impl<'s> ConfigReport<'s> {
    pub(super) fn new(source: &'s ConfigSource<'s>) -> Self {
        Self { source, found: Vec::new() }
    }

    pub(super) fn add(&mut self, span: &TextSpan, message: impl Display) {
        self.found.push((span.clone(), message.to_string()));
    }

    pub(super) fn text(&self, span: &TextSpan) -> &'s str {
        self.source.text.get(span.clone()).unwrap_or_default()
    }

    /// Returns whether there is a secret at a position, which a message does not show.
    pub(super) fn is_secret(&self, span: &TextSpan) -> bool {
        self.source
            .secrets
            .iter()
            .any(|one| one.start < span.end.max(span.start + 1) && span.start < one.end)
    }

    /// The whole line a span begins on.
    pub(super) fn line_text(&self, span: &TextSpan) -> &'s str {
        self.source.line(self.line(span))
    }

    /// The number of the line a span begins on.
    pub(super) fn line(&self, span: &TextSpan) -> usize {
        self.source.line_number(span.start)
    }

    /// Returns whether there is no error.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// `Ok` when there is no error, else all of them, in the order of the text.
    pub(super) fn end(mut self) -> Result<(), ConfigErrors> {
        self.found.sort_by_key(|(span, _)| span.start);
        self.found.dedup();
        let source = self.source;
        let found = self.found.into_iter();
        let errors: Vec<_> = found.map(|(span, message)| source.error(&span, message)).collect();
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors(errors)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(text: &str, span: TextSpan) -> (usize, usize, String) {
        let error = ConfigSource::new("f", text).error(&span, String::new());
        let last = error.to_string().lines().last().unwrap_or_default().to_owned();
        (error.line, error.column, last)
    }

    #[test]
    fn lines_and_columns_begin_at_one_and_columns_count_characters() {
        assert_eq!(position("ab\ncd", 0..1), (1, 1, "    | ^".into()));
        assert_eq!(position("ab\ncd", 4..5), (2, 2, "    |  ^".into()));
        assert_eq!(position("é = 1\r\n", 5..6), (1, 5, "    |     ^".into()));
        assert_eq!(position("\u{feff}ab", 4..5), (1, 2, "    |  ^".into()));
    }

    #[test]
    fn positions_behind_the_text_and_inside_a_character_are_moved_into_it() {
        assert_eq!(position("", 0..0), (1, 1, "    | ^".into()));
        assert_eq!(position("ab\n", 3..3), (2, 1, "    | ^".into()));
        assert_eq!(position("ab", 9..12), (1, 3, "    |   ^".into()));
        assert_eq!(position("é", 1..2), (1, 1, "    | ^".into()));
    }

    #[test]
    fn a_mark_ends_with_its_line() {
        assert_eq!(position("ab\ncd\nef", 1..8), (1, 2, "    |  ^".into()));
    }
}
