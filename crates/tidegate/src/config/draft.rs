//! Rules as far as they could be read, with the positions of their fields.

use std::time::Duration;
use tidegate_core::{AlgorithmKind, Spec};

use super::source::TextSpan;
use super::table::TomlTable;
use crate::rules::{OverrideSpec, RuleSpec};

/// A rule as far as it could be read. A value that could not be read is replaced by a harmless one
/// and its field is listed as failed, so that the rest of the rule can still be checked.
pub(super) struct RuleDraft<'t> {
    pub(super) table: TomlTable<'t>,
    pub(super) failed: Vec<&'static str>,
    pub(super) spec: RuleSpec,
    pub(super) when: TomlTable<'t>,
    pub(super) key: Vec<TextSpan>,
    pub(super) overrides: Vec<OverrideDraft<'t>>,
}

impl<'t> RuleDraft<'t> {
    pub(super) fn new(table: TomlTable<'t>) -> Self {
        let mut values = Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(1));
        values.window = None;
        Self {
            table,
            failed: Vec::new(),
            spec: RuleSpec::new("", values),
            when: TomlTable::default(),
            key: Vec::new(),
            overrides: Vec::new(),
        }
    }
}

/// An override as far as it could be read.
pub(super) struct OverrideDraft<'t> {
    pub(super) table: TomlTable<'t>,
    pub(super) failed: Vec<&'static str>,
    pub(super) spec: OverrideSpec,
    pub(super) entries: TomlTable<'t>,
}

impl<'t> OverrideDraft<'t> {
    pub(super) fn new(table: TomlTable<'t>) -> Self {
        Self {
            table,
            failed: Vec::new(),
            spec: OverrideSpec::default(),
            entries: TomlTable::default(),
        }
    }
}
