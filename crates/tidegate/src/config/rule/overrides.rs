//! One `[[rule.override]]`: its fields, and how each is read.

use tidegate_core::Field;

use crate::config::accept::TableFields;
use crate::config::draft::OverrideDraft;
use crate::config::limits;
use crate::config::source::ConfigReport;
use crate::config::table::{TomlEntry, TomlTable};
use crate::config::value::{count, entries, length};

pub(in crate::config) fn fields<'t>() -> TableFields<'t, OverrideDraft<'t>> {
    TableFields::of_fields(
        [
            (("match", &["when", "where", "if", "key"]), OverrideDraft::matching),
            (("limit", &["max", "maxvalue", "quota", "requests"]), OverrideDraft::limit),
            (("window", &["period", "interval", "duration"]), OverrideDraft::window),
            (("capacity", &["burst", "maxburst", "size"]), OverrideDraft::capacity),
            (("rate", &["requestsperunit", "speed"]), OverrideDraft::rate),
        ],
        not_for_overrides,
    )
}

/// The message for a field that only a rule has.
fn not_for_overrides(name: &str) -> Option<String> {
    let is_changeable = fields().names().any(|(word, also)| word == name || also.contains(&name));
    (super::fields().has(name) && !is_changeable).then(|| {
        format!(
            "`{name}` can not be changed by an override: expected only `limit`, `window`, \
             `capacity` or `rate`"
        )
    })
}

impl<'t> OverrideDraft<'t> {
    /// Reads an override; reports errors in its fields, and the fields it lacks.
    pub(super) fn read(table: TomlTable<'t>, report: &mut ConfigReport<'_>) -> Self {
        let mut draft = Self::new(table.clone());
        let mut failed = fields().read(&table, &mut draft, report);
        failed.extend(limits::untrusted_by_rate(&table, &failed, report));
        failed.extend(missing(&table, &failed, report));
        draft.failed = failed;
        draft
    }

    fn matching(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let expected = "a table of entries of `key` with their values, such as { user = \"ann\" }";
        let (table, texts) = entries(entry, expected, report)?;
        let all = texts.len() == table.entries.len();
        (self.entries, self.spec.entries) = (table, texts);
        all.then_some(())
    }

    fn limit(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.limit = Some(limits::limit(entry, report)?);
        Some(())
    }

    fn window(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.window = Some(length(entry, Field::Window, report)?);
        Some(())
    }

    fn capacity(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.capacity = Some(count(entry, Field::Capacity, report)?);
        Some(())
    }

    fn rate(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let (limit, window) = limits::rate(entry, report)?;
        (self.spec.limit, self.spec.window) = (Some(limit), Some(window));
        Some(())
    }
}

/// Reports an override without a match or without a change.
fn missing(
    table: &TomlTable<'_>,
    failed: &[&'static str],
    report: &mut ConfigReport<'_>,
) -> Option<&'static str> {
    const CHANGES: [&str; 4] = ["limit", "window", "capacity", "rate"];
    if !CHANGES.iter().any(|name| table.get(name).is_some() || failed.contains(name)) {
        let expected = "expected `limit`, `window`, `capacity` or `rate`";
        report.add(&table.header, format!("the override changes nothing: {expected}"));
    }
    if table.get("match").is_some() || failed.contains(&"match") {
        return None;
    }
    let expected = "expected at least one entry of `key` with its value";
    report.add(&table.header, format!("`match` is missing: {expected}"));
    Some("match")
}
