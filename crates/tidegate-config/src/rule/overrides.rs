//! One `[[rule.override]]`: its fields, and how each is read.
//!
//! `rule.rs` reads each with its rule, and `positions.rs` finds the place of its errors.

use tidegate_core::{Field, MAX_LIMIT};

use crate::accept::TableFields;
use crate::kind::ValueKind::{self, Entries, Text, Whole};
use crate::limits;
use crate::source::ConfigReport;
use crate::table::TomlTable;
use crate::value::{Given, put};
use tidegate_rules::rules::OverrideSpec;

/// An override as far as it could be read.
#[derive(Default)]
pub(crate) struct OverrideDraft<'t> {
    pub(crate) table: TomlTable<'t>,
    pub(crate) failed: Vec<&'static str>,
    pub(crate) spec: OverrideSpec,
    pub(crate) entries: TomlTable<'t>,
}

pub(crate) fn fields<'t>() -> TableFields<'t, OverrideDraft<'t>> {
    TableFields::<OverrideDraft<'t>>::of_fields([
        (("match", &["when", "where", "if", "key"]), Entries(&Text), OverrideDraft::matching),
        (("limit", &["max", "maxvalue", "quota", "requests"]), ValueKind::LIMIT, |draft, given| {
            put(&mut draft.spec.limit, limits::limit(given))
        }),
        (("window", &["period", "interval", "duration"]), ValueKind::TIME, |draft, given| {
            put(&mut draft.spec.window, given.how_long(Field::Window.expects()))
        }),
        (("capacity", &["burst", "maxburst", "size"]), Whole(0, MAX_LIMIT), |draft, given| {
            put(&mut draft.spec.capacity, given.count(Field::Capacity))
        }),
        (("rate", &["requestsperunit", "speed"]), ValueKind::RATE, OverrideDraft::rate),
    ])
    .elsewhere(not_for_overrides)
}

/// The message for a field that only a rule has.
fn not_for_overrides(name: &str) -> Option<String> {
    let is_changeable = fields().names().any(|(word, also)| word == name || also.contains(&name));
    (super::fields().has(name) && !is_changeable).then(|| {
        format!(
            "`{name}` cannot be changed by an override: expected only `limit`, `window`, \
             `capacity` or `rate`"
        )
    })
}

/// Reads an override; reports errors in its fields, and the fields it lacks.
pub(super) fn read<'t>(table: TomlTable<'t>, report: &mut ConfigReport<'_>) -> OverrideDraft<'t> {
    const CHANGES: [&str; 4] = ["limit", "window", "capacity", "rate"];
    let mut draft = OverrideDraft { table: table.clone(), ..OverrideDraft::default() };
    let mut failed = fields().read(&table, &mut draft, report);
    failed.extend(limits::untrusted_by_rate(&table, &failed, report));
    // A field that could not be read was meant to change something, so it gets no second error.
    if !CHANGES.iter().any(|name| table.get(name).is_some() || failed.contains(name)) {
        let expected = "expected `limit`, `window`, `capacity` or `rate`";
        report.add(&table.header, format!("the override changes nothing: {expected}"));
    }
    if table.lacks("match", "at least one entry of `key` with its value", &failed, report) {
        failed.push("match");
    }
    draft.failed = failed;
    draft
}

impl<'t> OverrideDraft<'t> {
    fn matching(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let expected = "a table of entries of `key` with their values, such as { user = \"ann\" }";
        let (table, texts) = given.entries(expected)?;
        // `entries` leaves out values that are no texts, and has reported them.
        let all = texts.len() == table.entries.len();
        (self.entries, self.spec.entries) = (table, texts);
        all.then_some(())
    }

    fn rate(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let (limit, window) = limits::rate(given)?;
        (self.spec.limit, self.spec.window) = (Some(limit), Some(window));
        Some(())
    }
}
