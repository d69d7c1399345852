//! `on_excess`: the treatment of a request above the limit of a rule.

use std::time::Duration;
use toml::de::DeValue;

use super::accept::TableFields;
use super::source::ConfigReport;
use super::table::{TomlEntry, TomlTable};
use super::value::{choice, how_long, whole, wrong};
use super::vocabulary::ON_EXCESS;
use crate::rules::OnExcess;
use crate::rules::{MAX_WAITERS_EXPECTED, WAIT_EXPECTED};
use tidegate_core::text::parse_duration;

/// The values expected in a message.
const EXPECTED: &str = "\"reject\", or { wait = \"2s\", max_waiters = 100 }";

/// The table of a rule whose requests wait.
#[derive(Default)]
struct ExcessDraft {
    wait: Option<Duration>,
    max_waiters: Option<usize>,
}

/// The fields of that table.
fn fields<'t>() -> TableFields<'t, ExcessDraft> {
    TableFields::of_fields(
        [
            (("wait", &["timeout", "deadline", "for"]), ExcessDraft::wait),
            (("max_waiters", &["waiters", "queue", "max"]), ExcessDraft::max_waiters),
        ],
        |_| None,
    )
}

/// Reads it: a name or a table.
pub(super) fn read(entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<OnExcess> {
    match entry.value() {
        DeValue::String(text) if says_to_wait(text) => wrong(entry, EXPECTED, report),
        DeValue::String(_) => choice(entry, ON_EXCESS, report).map(|_| OnExcess::Reject),
        DeValue::Table(_) => waiting(&entry.as_table()?, report),
        _ => wrong(entry, EXPECTED, report),
    }
}

/// Returns whether a text that should be a table was meant to be one.
fn says_to_wait(text: &str) -> bool {
    matches!(text, "wait" | "queue" | "delay" | "block") || parse_duration(text).is_ok()
}

/// Both fields are needed, because neither the time nor the number of waiting requests can be guessed.
fn waiting(table: &TomlTable<'_>, report: &mut ConfigReport<'_>) -> Option<OnExcess> {
    let mut draft = ExcessDraft::default();
    let failed = fields().read(table, &mut draft, report);
    for (name, expected) in [("wait", WAIT_EXPECTED), ("max_waiters", MAX_WAITERS_EXPECTED)] {
        if table.get(name).is_none() && !failed.contains(&name) {
            report.add(&table.header, format!("`{name}` is missing: expected {expected}"));
        }
    }
    Some(OnExcess::Wait { wait: draft.wait?, max_waiters: draft.max_waiters? })
}

impl ExcessDraft {
    fn wait(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.wait = Some(how_long(entry, WAIT_EXPECTED, report)?);
        Some(())
    }

    fn max_waiters(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        let number = whole(entry, MAX_WAITERS_EXPECTED, report)?;
        let number = usize::try_from(number).ok();
        self.max_waiters = Some(number.or_else(|| wrong(entry, MAX_WAITERS_EXPECTED, report))?);
        Some(())
    }
}
