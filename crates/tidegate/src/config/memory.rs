//! The section `[memory]`: the memory that all rules together may use.

use std::num::NonZeroUsize;

use super::accept::TableFields;
use super::rule;
use super::source::ConfigReport;
use super::table::{TomlEntry, TomlTable};
use super::value::{keys, wrong};
use super::vocabulary::MAX_KEYS_ALSO;
use crate::rules::Policy;
use crate::rules::{MAX_KEYS_EXPECTED, MOST_MAX_KEYS};

/// The contents of the section.
#[derive(Default)]
pub(super) struct MemoryDraft {
    max_keys: Option<NonZeroUsize>,
}

pub(super) fn fields<'t>() -> TableFields<'t, MemoryDraft> {
    TableFields::of_fields([(("max_keys", MAX_KEYS_ALSO), MemoryDraft::max_keys)], only_of_a_rule)
}

/// The message for a field of a rule that stands in `[memory]`.
fn only_of_a_rule(name: &str) -> Option<String> {
    let message =
        || format!("`{name}` is not for all rules together: expected it below a `[[rule]]`");
    rule::fields().has(name).then(message)
}

impl MemoryDraft {
    /// Reads the section; reports its errors, and an empty section.
    pub(super) fn read(table: &TomlTable<'_>, report: &mut ConfigReport<'_>) -> Self {
        let mut draft = Self::default();
        fields().read(table, &mut draft, report);
        if table.entries.is_empty() {
            let expected = format!("expected `max_keys`, {MAX_KEYS_EXPECTED}");
            report.add(&table.header, format!("`[memory]` says nothing: {expected}"));
        }
        draft
    }

    /// The policy with the settings of the section.
    pub(super) fn applied_to(&self, policy: Policy) -> Policy {
        match self.max_keys {
            Some(max_keys) => policy.with_max_keys(max_keys),
            None => policy,
        }
    }

    fn max_keys(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        let given = keys(entry, report)?;
        let in_range = NonZeroUsize::new(given).filter(|given| given.get() <= MOST_MAX_KEYS);
        self.max_keys = Some(in_range.or_else(|| wrong(entry, MAX_KEYS_EXPECTED, report))?);
        Some(())
    }
}
