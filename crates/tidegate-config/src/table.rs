//! A TOML table as written: its entries in the order of the file, each with its position.
//!
//! Readers of fields use it in place of the parser's own table, because errors name positions.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::{ConfigReport, TextSpan};

/// `name = value`.
#[derive(Clone)]
pub(super) struct TomlEntry<'t> {
    pub(super) name: &'t str,
    /// The position of the name.
    pub(super) key: TextSpan,
    value: &'t Spanned<DeValue<'t>>,
}

impl<'t> TomlEntry<'t> {
    pub(super) fn value(&self) -> &'t DeValue<'t> {
        self.value.get_ref()
    }

    /// The position of the value; for a table or an array of tables, the position of its (first) header.
    pub(super) fn position(&self) -> TextSpan {
        self.value.span()
    }

    /// Returns whether the value is made of tables, under headers of their own.
    pub(super) fn is_tables(&self) -> bool {
        let mut items = self.value().as_array().into_iter().flat_map(|items| items.iter());
        items.next().is_some_and(|item| item.get_ref().is_table())
    }

    /// The value as a table.
    pub(super) fn as_table(&self) -> Option<TomlTable<'t>> {
        Some(TomlTable::new(self.position(), self.value().as_table()?))
    }

    /// The values of an array, each under the name of the array.
    pub(super) fn as_list(&self) -> Option<impl Iterator<Item = TomlEntry<'t>> + use<'t>> {
        let name = self.name;
        let key = self.key.clone();
        let values = self.value().as_array()?.iter();
        Some(values.map(move |value| TomlEntry { name, key: key.clone(), value }))
    }
}

#[derive(Clone, Default)]
pub(super) struct TomlTable<'t> {
    /// The position of its header, such as `[[rule]]`; for an inline table, the position of the whole table.
    pub(super) header: TextSpan,
    /// Its entries, in the order of the file.
    pub(super) entries: Vec<TomlEntry<'t>>,
}

impl<'t> TomlTable<'t> {
    pub(super) fn new(header: TextSpan, table: &'t DeTable<'t>) -> Self {
        let mut entries: Vec<_> = table
            .iter()
            .map(|(key, value)| TomlEntry { name: key.get_ref(), key: key.span(), value })
            .collect();
        // A parsed table need not keep the order in which its entries were written.
        entries.sort_by_key(|entry| entry.key.start);
        Self { header, entries }
    }

    pub(super) fn get(&self, name: &str) -> Option<&TomlEntry<'t>> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The position of the value of the first of these names that the table has, or the position of its header if it
    /// has none.
    pub(super) fn position_of(&self, names: &[&str]) -> TextSpan {
        let found = names.iter().find_map(|name| self.get(name));
        found.map_or(self.header.clone(), TomlEntry::position)
    }

    /// Returns whether a required field is missing, which is then reported. A field that has `failed` is there, or was
    /// misspelt, and has been reported.
    pub(super) fn lacks(
        &self,
        name: &str,
        expected: &str,
        failed: &[&str],
        report: &mut ConfigReport<'_>,
    ) -> bool {
        let lacks = self.get(name).is_none() && !failed.contains(&name);
        if lacks {
            report.add(&self.header, format!("`{name}` is missing: expected {expected}"));
        }
        lacks
    }
}
