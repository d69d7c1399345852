//! Errors of TOML: invalid syntax and duplicate keys.
//!
//! The parser goes on after an error and then reports many that only follow from it. Here they are reduced to the
//! mistakes that a person made.

use std::collections::HashSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::{ConfigReport, TextSpan};
use super::table::TomlTable;
use tidegate_core::text::{HIDDEN, shown};

/// Headers of a rule that lack a bracket.
const TORN_HEADERS: [&str; 4] = ["rule]]", "[rule]]", "[[rule]", "[[rule"];
const DUPLICATE: &str = "duplicate key";
/// The starts of the parser's messages for a text that ends inside an array or inline table.
const UNCLOSED: [&str; 2] = ["unclosed array, ", "unclosed inline table, "];
/// The parser's messages about text in an array or inline table that does not belong there.
const UNCLOSED_ECHOES: [&str; 4] =
    ["in array", "array elements", "inline table", "key-value pairs"];

/// A text, as far as it is TOML.
pub(super) struct TomlTree<'t> {
    /// Its tables; of invalid TOML, the tables of the rules before the first error.
    pub(super) root: Spanned<DeTable<'t>>,
    /// True if it contains all of the text.
    pub(super) whole: bool,
}

/// Reads a text as TOML and reports every syntax error.
pub(super) fn read<'t>(text: &'t str, report: &mut ConfigReport<'_>) -> TomlTree<'t> {
    let (root, errors) = DeTable::parse_recoverable(text);
    let end = text.len()..text.len();
    let mut errors: Vec<_> = errors
        .iter()
        .map(|error| (error.span().unwrap_or_else(|| end.clone()), error.message()))
        .collect();
    errors.sort_by_key(|(span, _)| span.start);
    // A duplicate key breaks nothing: the rest of the text is still read.
    let (twice, broken): (Vec<_>, Vec<_>) =
        errors.into_iter().partition(|(_, message)| *message == DUPLICATE);
    for (span, _) in &twice {
        report_duplicate(&root, span, report);
    }
    report_broken(&broken, report);
    match broken.first() {
        None => TomlTree { root, whole: true },
        Some((first, _)) => TomlTree { root: rules_before(text, first.start), whole: false },
    }
}

/// The rules that end before a position: text after a syntax error cannot be trusted.
fn rules_before(text: &str, at: usize) -> Spanned<DeTable<'_>> {
    let lines = text.split_inclusive('\n').scan(0, |end, line| {
        *end += line.len();
        Some((*end - line.len(), line))
    });
    let headers = lines.take_while(|(start, _)| *start <= at).filter(|(_, line)| is_header(line));
    // The rule with the error is cut off as a whole, from its header on.
    let end = headers.last().map_or(0, |(start, _)| start);
    let (root, errors) = DeTable::parse_recoverable(text.get(..end).unwrap_or_default());
    // A line inside a text of several lines may look like a header, and a text that is cut there is not closed.
    let sound = errors.iter().all(|error| error.message() == DUPLICATE);
    if sound { root } else { Spanned::new(0..0, DeTable::new()) }
}

/// Returns whether a line begins a rule.
pub(super) fn is_header(line: &str) -> bool {
    let name = line.trim_start().strip_prefix("[[").and_then(|rest| rest.split_once("]]"));
    name.is_some_and(|(name, _)| name.trim() == "rule")
}

/// Reports syntax errors, one for each line: others on a line are mostly echoes.
fn report_broken(errors: &[(TextSpan, &str)], report: &mut ConfigReport<'_>) {
    let mut lines = HashSet::new();
    for (span, message) in before_unclosed(errors, report) {
        if !lines.insert(report.line(&span)) {
            continue;
        }
        if TORN_HEADERS.contains(&report.line_text(&span).trim()) {
            report.add(&span, "a bracket is missing: expected `[[rule]]`".to_owned());
        } else {
            let secret = report.is_secret(&span);
            let message = reworded(message, if secret { HIDDEN } else { report.text(&span) });
            report.add(&span, message);
        }
    }
}

/// The errors up to the line on which an array or inline table should have been closed; the text
/// after it is parsed as if it were inside, and its errors make no sense.
fn before_unclosed<'e>(
    errors: &[(TextSpan, &'e str)],
    report: &ConfigReport<'_>,
) -> Vec<(TextSpan, &'e str)> {
    let unclosed = errors
        .iter()
        .find(|(_, message)| UNCLOSED.iter().any(|unclosed| message.starts_with(unclosed)));
    let first = errors
        .iter()
        .find(|(_, message)| UNCLOSED_ECHOES.iter().any(|echo| message.contains(echo)));
    let (Some((_, message)), Some((span, _))) = (unclosed, first) else {
        return errors.to_vec();
    };
    let line = report.line(span);
    let before = errors.iter().filter(|(other, _)| report.line(other) < line).cloned();
    before.chain([(span.clone(), *message)]).collect()
}

/// The parser's message, or a better one where it guesses.
fn reworded(message: &str, given: &str) -> String {
    // A word that begins like `true` or `false` is taken for that value.
    if ["string values must be quoted", "invalid boolean"].iter().any(|m| message.starts_with(m)) {
        return not_a_value(given);
    }
    if let Some(what) = UNCLOSED.iter().find_map(|unclosed| message.strip_prefix(unclosed)) {
        return format!("a bracket that was opened before this is not closed: {what}");
    }
    match message {
        "unexpected key or value, expected newline, `#`" => {
            "unexpected key or value: expected the end of the line, or a comment".to_owned()
        }
        "invalid basic string, expected `\"`" => "the text is not closed: expected `\"`".to_owned(),
        "invalid literal string, expected `'`" => "the text is not closed: expected `'`".to_owned(),
        _ => message.replace(", expected nothing", "").replacen(", expected", ": expected", 1),
    }
}

/// Quotes that programs for texts write in place of `"`.
const OTHER_QUOTES: [char; 6] = ['“', '”', '„', '‘', '’', '‚'];

/// The number or flag that a text would be in ASCII; Chinese and Japanese keyboards write wide digits and commas.
fn in_ascii(given: &str) -> Option<String> {
    let ascii = given.chars().map(|c| match c {
        // The wide characters are in the order of ASCII.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{3001}' => ',',
        '\u{3002}' => '.',
        c => c,
    });
    let ascii: String = ascii.collect();
    let value = ascii.trim_end_matches([',', ';', '.']);
    let is_number = value.starts_with(|c: char| c.is_ascii_digit()) && value.parse::<f64>().is_ok();
    let is_value = is_number || ["true", "false"].contains(&value);
    (is_value && value != given).then(|| value.to_owned())
}

/// The message about text where a value should be.
fn not_a_value(given: &str) -> String {
    let comment = given.split_once("//").map(|(before, _)| before.trim_end());
    match comment {
        _ if given.is_empty() => "a value is missing: expected one after the `=`".to_owned(),
        // A secret is neither repeated nor guessed at.
        _ if given == HIDDEN => {
            "this is not a value: expected a number, true, false, or a text in quotes".to_owned()
        }
        Some(before) => format!(
            "`{}` is not a value: expected `{}`; a comment begins with `#`",
            shown(given),
            shown(before)
        ),
        None => {
            let meant = in_ascii(given).map_or_else(
                || format!("\"{}\"", shown(given.trim_matches(OTHER_QUOTES))),
                |value| format!("`{value}`"),
            );
            format!(
                "`{}` is not a value: expected a number, true, false, or a text in quotes; did you \
                 mean {meant}?",
                shown(given)
            )
        }
    }
}

/// Reports a key that is there twice, and its first position.
fn report_duplicate(root: &Spanned<DeTable<'_>>, span: &TextSpan, report: &mut ConfigReport<'_>) {
    let name = report.text(span).trim_matches(['"', '\'']);
    // A table whose header is repeated is no longer in the tree.
    let is_header = report.line_text(span).trim_start().starts_with('[');
    let root = TomlTable::new(0..0, root.get_ref());
    let first = (!is_header).then(|| first_of(&root, name, span.start, report)).flatten();
    let before = match first {
        Some(first) => format!("it is on line {} already: expected it once", report.line(&first)),
        None => "expected it once".to_owned(),
    };
    report.add(span, format!("`{}` is given twice: {before}", shown(name)));
}

/// The first position of the key that is also at `at`: in the last table that begins before it and
/// has the key, an inline one only if `at` is inside.
fn first_of(
    table: &TomlTable<'_>,
    name: &str,
    at: usize,
    report: &ConfigReport<'_>,
) -> Option<TextSpan> {
    let here = table.get(name).map(|entry| entry.key.clone()).filter(|key| key.start < at);
    let inner = table.entries.iter().flat_map(|entry| match entry.value() {
        DeValue::Table(_) => entry.as_table().into_iter().collect(),
        DeValue::Array(_) => entry
            .as_list()
            .map_or_else(Vec::new, |items| items.filter_map(|item| item.as_table()).collect()),
        _ => Vec::new(),
    });
    let holding = inner.filter(|inner| {
        let is_inline = report.text(&inner.header).starts_with('{');
        inner.header.start <= at && (!is_inline || at < inner.header.end)
    });
    let deeper = holding.filter_map(|inner| first_of(&inner, name, at, report));
    // The nearest before it, because tables of a list have the same names.
    deeper.chain(here).max_by_key(|key| key.start)
}
