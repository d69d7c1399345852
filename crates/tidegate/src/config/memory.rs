//! The section `[memory]`: what all rules together may take.

use std::num::NonZeroUsize;

use super::source::Report;
use super::table::{Entry, Table};
use super::value::{keys, wrong};
use super::vocabulary;
use crate::Policy;
use crate::rules::{MAX_KEYS_EXPECTED, MOST_MAX_KEYS};

/// What the section says.
#[derive(Default)]
pub(super) struct MemoryDraft {
    max_keys: Option<NonZeroUsize>,
}

impl MemoryDraft {
    /// Reads the section; tells what is wrong with it, and when it says nothing.
    pub(super) fn read(table: &Table<'_>, report: &mut Report<'_>) -> Self {
        let mut draft = Self::default();
        vocabulary::memory_fields().read(table, &mut draft, report);
        if table.entries.is_empty() {
            let expected = format!("expected `max_keys`, {MAX_KEYS_EXPECTED}");
            report.add(&table.header, format!("`[memory]` says nothing: {expected}"));
        }
        draft
    }

    /// The policy with what the section says.
    pub(super) fn applied_to(&self, policy: Policy) -> Policy {
        match self.max_keys {
            Some(max_keys) => policy.with_max_keys(max_keys),
            None => policy,
        }
    }

    pub(super) fn max_keys(&mut self, entry: &Entry<'_>, report: &mut Report<'_>) -> Option<()> {
        let given = keys(entry, report)?;
        let in_range = NonZeroUsize::new(given).filter(|given| given.get() <= MOST_MAX_KEYS);
        self.max_keys = Some(in_range.or_else(|| wrong(entry, MAX_KEYS_EXPECTED, report))?);
        Some(())
    }
}
