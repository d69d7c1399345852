//! A section that belongs to a program: a table of fields, each with the kind of its value, next to the sections of the
//! rules.

use tidegate_core::text::shown;
use toml::de::DeValue;

use super::hints::{Called, FIELD, instead};
use super::source::ConfigReport;
use super::table::{TomlEntry, TomlTable};
use super::value::Given;

/// A section that a program adds to the file, such as `[server]`.
///
/// The program reads the values itself, as texts; an error in a value is reported at its place.
#[derive(Clone, Copy)]
pub struct Section<'a> {
    /// The name in its header.
    pub name: &'static str,
    /// The names of its fields, and the kind of value that each expects.
    pub fields: &'a [(&'a str, SectionKind)],
    /// Returns the error of the value of a field. Its text says which value was expected, and may first say why this
    /// value is wrong.
    pub check: &'a dyn Fn(&str, &str) -> Result<(), String>,
}

/// The kind of value that a field of a [`Section`] expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SectionKind {
    /// A text, in quotes.
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Flag,
    /// An array of texts. Each of them is checked, and returned, by itself.
    List,
}

/// The fields of a [`Section`] that a file has, with their values as texts: `8`, `true`, or the
/// text itself. A list has one pair for each of its texts.
pub type SectionValues = Vec<(String, String)>;

/// Reads the fields of a section; reports all errors.
pub(super) fn read(
    section: &Section<'_>,
    table: &TomlTable<'_>,
    report: &mut ConfigReport<'_>,
) -> SectionValues {
    let names: Vec<Called<'_>> = section.fields.iter().map(|(name, _)| (*name, &[][..])).collect();
    let mut values = SectionValues::new();
    for entry in &table.entries {
        let Some((_, kind)) = section.fields.iter().find(|(name, _)| *name == entry.name) else {
            let instead = instead(entry.name, &names, FIELD);
            report.add(&entry.key, format!("unknown field `{}`: {instead}", shown(entry.name)));
            continue;
        };
        for (entry, value) in texts(section, *kind, &mut Given { entry, report }) {
            match (section.check)(entry.name, &value) {
                Ok(()) => values.push((entry.name.to_owned(), value)),
                Err(error) => refuse(&mut Given { entry: &entry, report }, &error),
            }
        }
    }
    values
}

/// The value as texts, each with its place. A value of another kind is reported.
fn texts<'t>(
    section: &Section<'_>,
    kind: SectionKind,
    given: &mut Given<'_, 't, '_>,
) -> Vec<(TomlEntry<'t>, String)> {
    let value = match kind {
        SectionKind::Text => match with_unit(section, given.entry) {
            Some(meant) => given.wrong(&format!("a text, in quotes, with a unit: \"{meant}\"")),
            None => given.text().map(str::to_owned),
        },
        SectionKind::Number => given.whole("a whole number").map(|number| number.to_string()),
        SectionKind::Flag => given.flag().map(|flag| flag.to_string()),
        SectionKind::List => {
            let items = given.entry.as_list().or_else(|| given.wrong("an array of texts"));
            let items = items.into_iter().flatten();
            // Each item has its own place, so that an error marks that item alone.
            return items
                .filter_map(|item| Some((item.clone(), given.of(&item).text()?.to_owned())))
                .collect();
        }
    };
    value.map(|value| (given.entry.clone(), value)).into_iter().collect()
}

/// The length of time that a number was to be; `None` if the field has no length of time.
fn with_unit(section: &Section<'_>, entry: &TomlEntry<'_>) -> Option<String> {
    let DeValue::Integer(number) = entry.value() else { return None };
    let meant = format!("{number}s");
    // Only if the unit alone is missing: the check takes the number with a unit, and not without it.
    let fits = (section.check)(entry.name, &meant).is_ok()
        && (section.check)(entry.name, &number.to_string()).is_err();
    fits.then_some(meant)
}

/// Reports an error of the program. An error that only names the expected value is preceded by the found value.
fn refuse(given: &mut Given<'_, '_, '_>, error: &str) {
    let name = given.entry.name;
    given.error::<()>(if error.starts_with("expected") {
        format!("`{name}` is {}: {error}", given.kind())
    } else {
        format!("`{name}`: {error}")
    });
}
