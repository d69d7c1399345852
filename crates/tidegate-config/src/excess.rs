//! `on_excess`: the treatment of a request above the limit of a rule.
//!
//! `rule.rs` has it among the fields of a rule.

use std::time::Duration;
use tidegate_core::text::parse_duration;
use toml::de::DeValue;

use super::accept::TableFields;
use super::kind::ValueKind::{self, Either, Names, Table, Whole};
use super::kind::names;
use super::value::{Given, put};
use super::vocabulary::ON_EXCESS;
use tidegate_rules::rules::{MAX_WAITERS_EXPECTED, MOST_MAX_WAITERS, OnExcess, WAIT_EXPECTED};

/// The values expected in a message.
const EXPECTED: &str = "\"reject\", or { wait = \"2s\", max_waiters = 100 }";

/// Its kind.
pub(super) const KIND: ValueKind =
    Either(&[Names(|| names(ON_EXCESS)), Table(|| fields().kinds())]);

/// The table of a rule whose requests wait.
#[derive(Default)]
struct ExcessDraft {
    wait: Option<Duration>,
    max_waiters: Option<usize>,
}

/// The fields of that table.
fn fields<'t>() -> TableFields<'t, ExcessDraft> {
    TableFields::of_fields([
        (("wait", &["timeout", "deadline", "for"]), ValueKind::TIME, |draft, given| {
            put(&mut draft.wait, given.how_long(WAIT_EXPECTED))
        }),
        (
            ("max_waiters", &["waiters", "queue", "max"]),
            Whole(1, MOST_MAX_WAITERS as u64),
            |draft, given| put(&mut draft.max_waiters, given.number::<usize>(MAX_WAITERS_EXPECTED)),
        ),
    ])
}

/// Reads it: a name or a table.
pub(super) fn read(given: &mut Given<'_, '_, '_>) -> Option<OnExcess> {
    match given.value() {
        DeValue::String(text) if says_to_wait(text) => given.wrong(EXPECTED),
        DeValue::String(_) => given.choice(ON_EXCESS),
        _ => waiting(given),
    }
}

/// Returns whether a text that should be a table was meant to be one.
fn says_to_wait(text: &str) -> bool {
    matches!(text, "wait" | "queue" | "delay" | "block") || parse_duration(text).is_ok()
}

/// Both fields are needed, because neither the time nor the number of waiting requests can be guessed.
fn waiting(given: &mut Given<'_, '_, '_>) -> Option<OnExcess> {
    let table = given.table(EXPECTED)?;
    let mut draft = ExcessDraft::default();
    let failed = fields().read(&table, &mut draft, given.report);
    for (name, expected) in [("wait", WAIT_EXPECTED), ("max_waiters", MAX_WAITERS_EXPECTED)] {
        table.lacks(name, expected, &failed, given.report);
    }
    Some(OnExcess::Wait { wait: draft.wait?, max_waiters: draft.max_waiters? })
}
