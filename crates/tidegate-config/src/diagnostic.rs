//! An error as a reader of a file sees it: position, message, and the line with a mark under it.
//!
//! It shows no value that may be a secret.

use std::fmt;
use std::ops::Range;

use tidegate_core::text::HIDDEN;

use tidegate_rules::printable::is_obeyed;

/// One error in a file of rules.
///
/// ```
/// let text = "[[rule]]\nname = \"all\"\nlimt = 5\n";
/// let errors = tidegate::config::parse("rules.toml", text).unwrap_err();
/// let error = errors.iter().find(|error| error.line == 3).unwrap();
/// assert_eq!((error.file.as_str(), error.column), ("rules.toml", 1));
/// assert!(error.message.contains("did you mean `limit`?"), "{error}");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The name of the file, as it was given.
    pub file: String,
    /// The line, counted from 1; 0 when the error is about the file itself, such as a missing one.
    pub line: usize,
    /// The column in characters, counted from 1; 0 when `line` is.
    pub column: usize,
    /// The error, the expected form, and the nearest correct form.
    pub message: String,
    /// The line that is shown under the message, without secrets.
    pub(super) excerpt: Option<Excerpt>,
}

impl ConfigError {
    /// An error about the file itself.
    pub(super) fn of_file(file: &str, message: String) -> Self {
        Self { file: file.to_owned(), line: 0, column: 0, message, excerpt: None }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return write!(f, "{}: {}", self.file, self.message);
        }
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        let Some(excerpt) = &self.excerpt else { return Ok(()) };
        writeln!(f)?;
        let number = self.line.to_string();
        let gutter = number.len();
        let space = if excerpt.text.is_empty() { "" } else { " " };
        writeln!(f, "  {number} |{space}{}", excerpt.text)?;
        write!(f, "  {:gutter$} | {}{}", "", excerpt.indent, "^".repeat(excerpt.width))
    }
}

tidegate_core::debug_as_display!(ConfigError);

impl std::error::Error for ConfigError {}

/// A line, or the part of a long one around the error, and the position of the mark under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    text: String,
    indent: String,
    width: usize,
}

/// Longer lines are cut to this many characters.
const MOST_SHOWN: usize = 160;
/// The number of characters of a cut line that are shown before the mark.
const SHOWN_BEFORE: usize = 60;

impl Excerpt {
    /// The excerpt of `line` with a mark under `width` characters from character `start` on. The
    /// bytes of `secret` are replaced; a mark in them is under the replacement.
    pub(super) fn new(
        line: &str,
        start: usize,
        width: usize,
        secret: Option<Range<usize>>,
    ) -> Self {
        let Some(secret) = secret else { return Self::shown(line, start, width) };
        let before = line.get(..secret.start).unwrap_or_default();
        let after = line.get(secret.end..).unwrap_or_default();
        let first = before.chars().count();
        let end = line.chars().count() - after.chars().count();
        // The position of a character in the line without the secret.
        let moved = |at: usize, inside: usize| match at {
            at if at <= first => at,
            at if at < end => inside,
            at => at - end + first + HIDDEN.len(),
        };
        let from = moved(start, first);
        let to = moved(start + width, first + HIDDEN.len());
        Self::shown(&format!("{before}{HIDDEN}{after}"), from, to.saturating_sub(from))
    }

    fn shown(line: &str, start: usize, width: usize) -> Self {
        let length = line.chars().count();
        let first = if length > MOST_SHOWN { start.saturating_sub(SHOWN_BEFORE) } else { 0 };
        let text: String = line.chars().skip(first).take(MOST_SHOWN).map(printable).collect();
        let before = text.chars().take(start - first);
        // A tab stays a tab, so that the mark stands under its text at any width of tabs.
        let indent = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let most = text.chars().count().saturating_sub(start - first);
        // One mark at least, also where something is missing at the end of the line.
        Self { text, indent, width: width.min(most).max(1) }
    }
}

/// The character, unless a terminal would obey it.
fn printable(c: char) -> char {
    if is_obeyed(c) && c != '\t' { char::REPLACEMENT_CHARACTER } else { c }
}

/// All errors of a file, in the order of the file; never empty.
///
/// ```
/// let errors = tidegate::config::parse("rules.toml", "[[rule]]\nnam = \"a\"\n").unwrap_err();
/// assert!(errors.to_string().contains("rules.toml:2:1: unknown field `nam`: did you mean `name`?"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub(super) Vec<ConfigError>);

impl ConfigErrors {
    /// The errors.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }

    /// For a text that was refused without an error being reported; no such text is known.
    pub(super) fn unexplained(file: &str) -> Self {
        Self(vec![ConfigError::of_file(
            file,
            "the rules were refused, and it is not known why".into(),
        )])
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n\n" })?;
        }
        Ok(())
    }
}

tidegate_core::debug_as_display!(ConfigErrors);

impl std::error::Error for ConfigErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str, start: usize, width: usize) -> (String, String) {
        let excerpt = Excerpt::new(line, start, width, None);
        (excerpt.text, format!("{}{}", excerpt.indent, "^".repeat(excerpt.width)))
    }

    #[test]
    fn the_mark_stands_under_the_characters_also_behind_tabs() {
        assert_eq!(shown("a = 1", 4, 1), ("a = 1".into(), "    ^".into()));
        assert_eq!(shown("\ta\t= 1", 5, 1), ("\ta\t= 1".into(), "\t \t  ^".into()));
    }

    #[test]
    fn a_mark_never_ends_behind_its_line_and_is_never_empty() {
        assert_eq!(shown("ab", 1, 99).1, " ^");
        assert_eq!(shown("ab", 2, 0).1, "  ^");
    }

    #[test]
    fn long_lines_are_cut_around_the_mark() {
        let line = format!("{}HERE{}", "a".repeat(1_000), "b".repeat(1_000));
        let (text, mark) = shown(&line, 1_000, 4);
        assert_eq!(text.len(), MOST_SHOWN);
        assert_eq!(text.find("HERE"), mark.find("^^^^"));
    }

    #[test]
    fn a_secret_is_replaced_and_the_mark_stays_where_it_belongs() {
        let line = "é = \"s3cret\" # c";
        let secret = line.find("s3").unwrap_or_default()..line.find("\" #").unwrap_or_default();
        let shown = |start, width| {
            let excerpt = Excerpt::new(line, start, width, Some(secret.clone()));
            assert_eq!(excerpt.text, "é = \"***\" # c");
            format!("{}{}", excerpt.indent, "^".repeat(excerpt.width))
        };
        assert_eq!(shown(0, 1), "^");
        assert_eq!(shown(4, 8), "    ^^^^^");
        assert_eq!(shown(7, 2), "     ^^^");
        assert_eq!(shown(13, 1), "          ^");
    }

    #[test]
    fn control_characters_are_not_sent_to_the_terminal() {
        assert_eq!(shown("a\u{1b}[31m", 0, 1).0, "a\u{fffd}[31m");
    }
}
