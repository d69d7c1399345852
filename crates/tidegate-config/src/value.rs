//! Values of the kind that a field needs; for any other kind, the expected kind is reported.
//!
//! Each field is read by a method of `Given`, which reports a wrong value once, at its place.

use std::path::PathBuf;
use std::time::Duration;
use tidegate_core::text::{HIDDEN, parse_duration, shown};
use tidegate_core::{Field, ValueError};
use toml::de::DeValue;

use super::hints::{KnownName, TEXT, instead};
use super::source::ConfigReport;
use super::table::{TomlEntry, TomlTable};

/// A field with its value as the file gives it, and the report that errors in it go to.
pub(super) struct Given<'a, 't, 's> {
    pub(super) entry: &'a TomlEntry<'t>,
    pub(super) report: &'a mut ConfigReport<'s>,
}

/// Puts a value in its place, if it could be read.
pub(super) fn put<T>(place: &mut T, read: Option<impl Into<T>>) -> Option<()> {
    *place = read?.into();
    Some(())
}

impl<'t, 's> Given<'_, 't, 's> {
    /// Another field, under the same report.
    pub(super) const fn of<'b>(&'b mut self, entry: &'b TomlEntry<'t>) -> Given<'b, 't, 's> {
        Given { entry, report: self.report }
    }

    pub(super) fn value(&self) -> &'t DeValue<'t> {
        self.entry.value()
    }

    /// Reports an error at the value.
    pub(super) fn error<T>(&mut self, message: String) -> Option<T> {
        self.report.add(&self.entry.position(), message);
        None
    }

    /// Reports a value that the field does not expect.
    pub(super) fn wrong<T>(&mut self, expected: &str) -> Option<T> {
        let name = shown(self.entry.name);
        self.error(format!("`{name}` is {}: expected {expected}", self.kind()))
    }

    /// A description of the value; not the value itself where it is secret.
    pub(super) fn kind(&self) -> String {
        match self.value() {
            // An empty text hides nothing, and to hide it would hide the mistake.
            DeValue::String(text) if text.is_empty() => "the text \"\"".to_owned(),
            _ if self.is_secret() => HIDDEN.to_owned(),
            DeValue::String(text) => format!("the text \"{}\"", shown(text)),
            DeValue::Integer(number) => shown(&number.to_string()),
            DeValue::Float(number) => shown(number.as_str()),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(_) => "a date or time".to_owned(),
            DeValue::Array(_) => "an array".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        }
    }

    fn is_secret(&self) -> bool {
        self.report.is_secret(&self.entry.position())
    }

    /// A length of time; `expected` says which are allowed. A bare number is refused, because it may mean seconds or
    /// milliseconds.
    pub(super) fn how_long(&mut self, expected: &str) -> Option<Duration> {
        match self.value() {
            DeValue::String(text) => self.parsed(parse_duration(text)),
            // Only a short decimal number is likely to be a time without its unit.
            DeValue::Integer(number) if number.radix() == 10 && number.as_str().len() < 10 => {
                let number = number.as_str();
                self.wrong(&format!("{expected}; did you mean \"{number}ms\" or \"{number}s\"?"))
            }
            _ => self.wrong(expected),
        }
    }

    pub(super) fn text(&mut self) -> Option<&'t str> {
        const EXPECTED: &str = "a text, in quotes";
        match self.value() {
            DeValue::String(text) => Some(text),
            _ if self.is_secret() => self.wrong(EXPECTED),
            DeValue::Integer(number) => {
                self.wrong(&format!("{EXPECTED}: \"{}\"", shown(&number.to_string())))
            }
            DeValue::Boolean(flag) => self.wrong(&format!("{EXPECTED}: \"{flag}\"")),
            _ => self.wrong(EXPECTED),
        }
    }

    /// The path of a file.
    pub(super) fn path(&mut self) -> Option<PathBuf> {
        self.text().map(PathBuf::from)
    }

    /// The value of one of a few names.
    pub(super) fn choice<T: Copy>(&mut self, words: &[(T, KnownName)]) -> Option<T> {
        let given = match self.value() {
            DeValue::String(text) => text.to_string(),
            // A flag is no name, but its word may lead to the name that is meant: `mode = true`.
            DeValue::Boolean(flag) => flag.to_string(),
            _ => String::new(),
        };
        let known = words.iter().find(|(_, (word, _))| *word == given && self.value().is_str());
        known.map(|(value, _)| *value).or_else(|| {
            let names: Vec<_> = words.iter().map(|(_, name)| *name).collect();
            let instead = instead(&given, &names, TEXT);
            self.error(format!("`{}` is {}: {instead}", self.entry.name, self.kind()))
        })
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.value() {
            DeValue::Boolean(flag) => Some(*flag),
            DeValue::String(text) if matches!(text.as_ref(), "true" | "false") => {
                self.wrong(&format!("true or false; write {text} without quotes"))
            }
            _ => self.wrong("true or false"),
        }
    }

    /// A whole number, of any size and sign that an `i128` holds.
    pub(super) fn whole(&mut self, expected: &str) -> Option<i128> {
        match self.value() {
            DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
                .ok()
                .or_else(|| self.wrong(expected)),
            DeValue::String(text) if text.parse::<u64>().is_ok() || text == "-1" => {
                self.wrong(&format!("{expected}; write {text} without quotes"))
            }
            _ => self.wrong(expected),
        }
    }

    /// A whole number of a type. Other checks compare it with its range.
    pub(super) fn number<N: TryFrom<i128>>(&mut self, expected: &str) -> Option<N> {
        let number = self.whole(expected)?;
        N::try_from(number).ok().or_else(|| self.wrong(expected))
    }

    /// A number of a field of a rule's values.
    pub(super) fn count(&mut self, field: Field) -> Option<u64> {
        self.number(field.expects())
    }

    /// A parsed text; reports its error.
    pub(super) fn parsed<T>(&mut self, result: Result<T, ValueError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => self.error(format!("`{}`: {error}", self.entry.name)),
        }
    }

    pub(super) fn table(&mut self, expected: &str) -> Option<TomlTable<'t>> {
        self.entry.as_table().or_else(|| self.wrong(expected))
    }

    /// Entries with texts, in the order of the file. Reports every error; returns the valid entries.
    pub(super) fn entries(
        &mut self,
        expected: &str,
    ) -> Option<(TomlTable<'t>, Vec<(String, String)>)> {
        let table = self.table(expected)?;
        let mut texts = Vec::new();
        for entry in &table.entries {
            let text = self.of(entry).text();
            texts.extend(text.map(|text| (entry.name.to_owned(), text.to_owned())));
        }
        Some((table, texts))
    }

    /// The tables of an array; reports items that are not tables, and a table by itself, which is returned.
    pub(super) fn tables(&mut self, expected: &str) -> Option<Vec<TomlTable<'t>>> {
        if let Some(table) = self.entry.as_table() {
            let name = self.entry.name;
            self.error::<()>(format!("`{name}` is a single table: expected {expected}"));
            // It is read as well, so that its own errors are found.
            return Some(vec![table]);
        }
        let items = self.entry.as_list().or_else(|| self.wrong(expected))?;
        Some(items.filter_map(|item| self.of(&item).table(expected)).collect())
    }
}
