//! The walk over one table: every entry is read by the field of its name, or reported as unknown.
//!
//! Sections, rules and overrides are read alike: each is a list of fields, and each field has a reader.

use super::hints::{FIELD, KnownName, Quotes, instead, nearest};
use super::kind::{FieldKinds, ValueKind};
use super::source::ConfigReport;
use super::table::{TomlEntry, TomlTable};
use super::value::Given;
use tidegate_core::text::shown;

/// Reads a field into the target; `None` when the value was wrong, which has then been reported.
pub(super) type Read<'t, T> = fn(&mut T, &mut Given<'_, 't, '_>) -> Option<()>;

/// The fields of one kind of table, and the messages about fields that belong elsewhere.
pub(super) struct TableFields<'t, T> {
    /// The noun for its entries: a field, a section.
    pub(super) what: &'static str,
    /// The quotes around the names of its entries in a message.
    pub(super) quotes: Quotes,
    /// Its fields: the name of each, its other names, the kind of its value, and its reader.
    pub(super) fields: Vec<(KnownName, ValueKind, Read<'t, T>)>,
    /// The message about a name that is known, but does not belong here.
    pub(super) elsewhere: fn(&str) -> Option<String>,
}

impl<'t, T> TableFields<'t, T> {
    /// A table whose entries are called fields.
    pub(super) fn of_fields<const N: usize>(
        fields: [(KnownName, ValueKind, Read<'t, T>); N],
    ) -> Self {
        Self { what: "field", quotes: FIELD, fields: fields.into(), elsewhere: |_| None }
    }

    /// Adds the messages about fields that belong elsewhere.
    pub(super) fn elsewhere(self, elsewhere: fn(&str) -> Option<String>) -> Self {
        Self { elsewhere, ..self }
    }

    /// The names of all fields, each with its other names.
    pub(super) fn names(&self) -> impl Iterator<Item = KnownName> {
        self.fields.iter().map(|(known, ..)| *known)
    }

    /// The names of all fields, each with the kind of its value.
    pub(super) fn kinds(&self) -> FieldKinds {
        self.fields.iter().map(|((name, _), kind, _)| (*name, *kind)).collect()
    }

    /// Returns whether there is a field of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names().any(|(word, _)| word == name)
    }

    /// Reads all entries into `target`; returns the names of the fields whose value could not be
    /// read, so that they are reported only once.
    pub(super) fn read(
        &self,
        table: &TomlTable<'t>,
        target: &mut T,
        report: &mut ConfigReport<'_>,
    ) -> Vec<&'static str> {
        let mut failed = Vec::new();
        for entry in &table.entries {
            match self.fields.iter().find(|((name, _), ..)| *name == entry.name) {
                Some(((name, _), _, read)) => {
                    if read(target, &mut Given { entry, report }).is_none() {
                        failed.push(*name);
                    }
                }
                None => failed.extend(self.unknown(entry, target, report)),
            }
        }
        failed
    }

    /// Reports an unknown field; returns the field that was meant, which is misspelt and not missing. A table under a
    /// misspelt name is still read, so that its own errors are reported as well.
    fn unknown(
        &self,
        entry: &TomlEntry<'t>,
        target: &mut T,
        report: &mut ConfigReport<'_>,
    ) -> Option<&'static str> {
        let names: Vec<_> = self.names().collect();
        let message = (self.elsewhere)(entry.name).unwrap_or_else(|| {
            let instead = instead(entry.name, &names, self.quotes);
            format!("unknown {} `{}`: {instead}", self.what, shown(entry.name))
        });
        report.add(&entry.key, message);
        let meant = nearest(entry.name, &names)?;
        let field = self.fields.iter().find(|((name, _), ..)| *name == meant && entry.is_tables());
        field.map(|(.., read)| read(target, &mut Given { entry, report }));
        Some(meant)
    }
}
