//! Values of the kind that a field needs; for any other kind, the expected kind is reported.

use std::time::Duration;
use tidegate_core::Field;
use toml::de::DeValue;

use super::hints::{KnownName, TEXT, instead};
use super::source::ConfigReport;
use super::table::{TomlEntry, TomlTable};
use crate::rules::MAX_KEYS_EXPECTED;
use tidegate_core::ValueError;
use tidegate_core::text::parse_duration;
use tidegate_core::text::{HIDDEN, shown};

/// Reports a value that the field does not expect.
pub(super) fn wrong<T>(
    entry: &TomlEntry<'_>,
    expected: &str,
    report: &mut ConfigReport<'_>,
) -> Option<T> {
    let message =
        format!("`{}` is {}: expected {expected}", shown(entry.name), kind(entry, report));
    report.add(&entry.position(), message);
    None
}

/// A description of a value; not the value itself where it is secret.
pub(super) fn kind(entry: &TomlEntry<'_>, report: &ConfigReport<'_>) -> String {
    match entry.value() {
        DeValue::String(text) if text.is_empty() => "the text \"\"".to_owned(),
        _ if report.is_secret(&entry.position()) => HIDDEN.to_owned(),
        DeValue::String(text) => format!("the text \"{}\"", shown(text)),
        DeValue::Integer(number) => shown(&number.to_string()),
        DeValue::Float(number) => shown(number.as_str()),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date or time".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// A length of time; `expected` says which are allowed. A bare number is refused, because it may mean seconds or
/// milliseconds.
pub(super) fn how_long(
    entry: &TomlEntry<'_>,
    expected: &str,
    report: &mut ConfigReport<'_>,
) -> Option<Duration> {
    match entry.value() {
        DeValue::String(text) => parsed(entry, parse_duration(text), report),
        DeValue::Integer(number) if number.radix() == 10 && number.as_str().len() < 10 => {
            let number = number.as_str();
            let meant = format!("{expected}; did you mean \"{number}ms\" or \"{number}s\"?");
            wrong(entry, &meant, report)
        }
        _ => wrong(entry, expected, report),
    }
}

pub(super) fn text<'t>(entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<&'t str> {
    match entry.value() {
        DeValue::String(text) => Some(text),
        _ if report.is_secret(&entry.position()) => wrong(entry, "a text, in quotes", report),
        DeValue::Integer(number) => {
            let expected = format!("a text, in quotes: \"{}\"", shown(&number.to_string()));
            wrong(entry, &expected, report)
        }
        DeValue::Boolean(flag) => wrong(entry, &format!("a text, in quotes: \"{flag}\""), report),
        _ => wrong(entry, "a text, in quotes", report),
    }
}

/// One of a few names.
pub(super) fn choice(
    entry: &TomlEntry<'_>,
    words: &[KnownName],
    report: &mut ConfigReport<'_>,
) -> Option<&'static str> {
    let given = match entry.value() {
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        _ => String::new(),
    };
    let known = words.iter().find(|(word, _)| *word == given && entry.value().is_str());
    known.map(|(word, _)| *word).or_else(|| {
        let kind = kind(entry, report);
        let message = format!("`{}` is {kind}: {}", entry.name, instead(&given, words, TEXT));
        report.add(&entry.position(), message);
        None
    })
}

pub(super) fn flag(entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<bool> {
    match entry.value() {
        DeValue::Boolean(flag) => Some(*flag),
        DeValue::String(text) if matches!(text.as_ref(), "true" | "false") => {
            wrong(entry, &format!("true or false; write {text} without quotes"), report)
        }
        _ => wrong(entry, "true or false", report),
    }
}

/// A whole number, of any size and sign that an `i128` holds.
pub(super) fn whole(
    entry: &TomlEntry<'_>,
    expected: &str,
    report: &mut ConfigReport<'_>,
) -> Option<i128> {
    match entry.value() {
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .ok()
            .or_else(|| wrong(entry, expected, report)),
        DeValue::String(text) if text.parse::<u64>().is_ok() || text == "-1" => {
            wrong(entry, &format!("{expected}; write {text} without quotes"), report)
        }
        _ => wrong(entry, expected, report),
    }
}

/// A whole number that is not negative. The rule's own check compares it with its range.
pub(super) fn count(
    entry: &TomlEntry<'_>,
    field: Field,
    report: &mut ConfigReport<'_>,
) -> Option<u64> {
    let number = whole(entry, field.expects(), report)?;
    u64::try_from(number).ok().or_else(|| wrong(entry, field.expects(), report))
}

/// A number of keys. Reports a number that a `usize` cannot hold; the policy's own check compares it with its range.
pub(super) fn keys(entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<usize> {
    let number = whole(entry, MAX_KEYS_EXPECTED, report)?;
    usize::try_from(number).ok().or_else(|| wrong(entry, MAX_KEYS_EXPECTED, report))
}

pub(super) fn length(
    entry: &TomlEntry<'_>,
    field: Field,
    report: &mut ConfigReport<'_>,
) -> Option<Duration> {
    how_long(entry, field.expects(), report)
}

/// A parsed text; reports its error.
pub(super) fn parsed<T>(
    entry: &TomlEntry<'_>,
    result: Result<T, ValueError>,
    report: &mut ConfigReport<'_>,
) -> Option<T> {
    result.map_err(|error| report.add(&entry.position(), format!("`{}`: {error}", entry.name))).ok()
}

/// Entries with texts, in the order of the file. Reports every error; returns the valid entries.
pub(super) fn entries<'t>(
    entry: &TomlEntry<'t>,
    expected: &str,
    report: &mut ConfigReport<'_>,
) -> Option<(TomlTable<'t>, Vec<(String, String)>)> {
    let table = entry.as_table().or_else(|| wrong(entry, expected, report))?;
    let texts = table.entries.iter().filter_map(|entry| {
        text(entry, report).map(|text| (entry.name.to_owned(), text.to_owned()))
    });
    let texts: Vec<_> = texts.collect();
    Some((table, texts))
}

/// The tables of an array; reports items that are not tables.
pub(super) fn tables<'t>(
    entry: &TomlEntry<'t>,
    expected: &str,
    report: &mut ConfigReport<'_>,
) -> Option<Vec<TomlTable<'t>>> {
    let items = entry.as_list().or_else(|| wrong(entry, expected, report))?;
    Some(
        items
            .filter_map(|item| item.as_table().or_else(|| wrong(&item, expected, report)))
            .collect(),
    )
}
