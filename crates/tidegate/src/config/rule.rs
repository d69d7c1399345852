//! One `[[rule]]`: how each of its fields is read.

use tidegate_core::{Algorithm, Anchor, Layout, Word};
use toml::de::DeValue;

use super::draft::{OverrideDraft, RuleDraft};
use super::hints::{TEXT, instead, nearest, one_of};
use super::size::parse_size;
use super::source::Report;
use super::table::{Entry, Table};
use super::value::{
    choice, count, entries, flag, how_long, keys, kind, length, parsed, tables, text, wrong,
};
use super::{excess, figures, vocabulary};
use crate::rules::DEDUPE_EXPECTED;
use crate::{Mode, OnFull, OnStoreError, Usage};

/// Reads a rule; tells what is wrong with its fields, and which it lacks.
pub(super) fn read<'t>(table: Table<'t>, report: &mut Report<'_>) -> RuleDraft<'t> {
    let mut draft = RuleDraft::new(table.clone());
    let mut failed = vocabulary::rule_fields().read(&table, &mut draft, report);
    failed.extend(figures::contradiction(&table, &failed, report));
    failed.extend(missing(&table, &failed, report));
    let algorithm = table.get("algorithm").and_then(|entry| entry.value().as_str());
    // Such a rule has no window, and needs none said to be missing.
    failed.extend(algorithm.filter(|name| is_in_flight(name)).map(|_| "window"));
    draft.failed = failed;
    draft
}

/// Tells of the fields that a rule can not do without; gives them.
fn missing(
    table: &Table<'_>,
    failed: &[&'static str],
    report: &mut Report<'_>,
) -> Vec<&'static str> {
    let algorithms = one_of(&vocabulary::algorithms(), TEXT);
    let needed = [
        ("name", "a text of a-z, 0-9, `.`, `_` and `-`, unique in its domain".to_owned()),
        ("algorithm", algorithms),
        ("limit", format!("{}; or a `rate`, such as \"100/s\"", Word::Limit.expects())),
    ];
    let is_there = |name| {
        table.get(name).is_some()
            || failed.contains(&name)
            || name == "limit" && table.get("rate").is_some()
    };
    let mut missing = Vec::new();
    for (name, expected) in needed.into_iter().filter(|(name, _)| !is_there(*name)) {
        report.add(&table.header, format!("`{name}` is missing: expected {expected}"));
        missing.push(name);
    }
    missing
}

/// Whether an algorithm is one of those that limit work in flight, which rules do not have.
fn is_in_flight(algorithm: &str) -> bool {
    nearest(algorithm, vocabulary::IN_FLIGHT).is_some()
}

impl<'t> RuleDraft<'t> {
    pub(super) fn name(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        text(entry, report)?.clone_into(&mut self.spec.name);
        Some(())
    }

    pub(super) fn domain(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        text(entry, report)?.clone_into(&mut self.spec.domain);
        Some(())
    }

    pub(super) fn when(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        let expected = "a table of entries with their values, such as { path = \"api/*\" }";
        (self.when, self.spec.when) = entries(entry, expected, report)?;
        Some(())
    }

    pub(super) fn key(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        if let DeValue::String(name) = entry.value() {
            return wrong(entry, &format!("a list of names: [{name:?}]"), report);
        }
        let list =
            entry.as_list().or_else(|| wrong(entry, "a list of names, such as [\"user\"]", report));
        let mut sound = true;
        for item in list? {
            let name = text(&item, report);
            sound &= name.is_some();
            self.spec.key.push(name.unwrap_or_default().to_owned());
            self.key.push(item.place());
        }
        sound.then_some(())
    }

    pub(super) fn algorithm(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        let given = entry.value().as_str().unwrap_or_default();
        if let Some(known) = Algorithm::from_name(given) {
            self.spec.spec.algorithm = known;
            return Some(());
        }
        let told = if is_in_flight(given) {
            "limits work in flight, which no store can decide: expected it in process, around the \
             work; for a rate, an even pace is \"leaky_queue\""
                .to_owned()
        } else {
            instead(given, &vocabulary::algorithms(), TEXT)
        };
        report.add(&entry.place(), format!("`algorithm` is {}: {told}", kind(entry.value())));
        None
    }

    pub(super) fn limit(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.spec.limit = figures::limit(entry, report)?;
        Some(())
    }

    pub(super) fn window(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.spec.window = Some(length(entry, Word::Window, report)?);
        Some(())
    }

    pub(super) fn rate(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        let (limit, window) = figures::rate(entry, report)?;
        (self.spec.spec.limit, self.spec.spec.window) = (limit, Some(window));
        Some(())
    }

    pub(super) fn buckets(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.spec.buckets = Some(count(entry, Word::Buckets, report)?);
        Some(())
    }

    pub(super) fn strict(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.spec.strict = Some(flag(entry, report)?);
        Some(())
    }

    pub(super) fn anchor(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        let anchor = match choice(entry, vocabulary::ANCHORS, report)? {
            "first_request" => Anchor::FirstRequest,
            _ => Anchor::Epoch,
        };
        self.spec.spec.anchor = Some(anchor);
        Some(())
    }

    pub(super) fn capacity(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.spec.capacity = Some(count(entry, Word::Capacity, report)?);
        Some(())
    }

    pub(super) fn initial(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.spec.initial = Some(count(entry, Word::Initial, report)?);
        Some(())
    }

    pub(super) fn resolution(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.spec.resolution = Some(length(entry, Word::Resolution, report)?);
        Some(())
    }

    pub(super) fn layout(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        let layout = match choice(entry, vocabulary::LAYOUTS, report)? {
            "sorted_set" => Layout::SortedSet,
            _ => Layout::String,
        };
        self.spec.spec.layout = Some(layout);
        Some(())
    }

    pub(super) fn max_memory(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        let bytes = match entry.value() {
            DeValue::String(text) => parsed(entry, parse_size(text), report)?,
            _ => count(entry, Word::MaxMemory, report)?,
        };
        self.spec.spec.max_memory = Some(bytes);
        Some(())
    }

    pub(super) fn max_keys(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.max_keys = Some(keys(entry, report)?);
        Some(())
    }

    pub(super) fn on_full(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.on_full = match choice(entry, vocabulary::ON_FULL, report)? {
            "refuse" => OnFull::Refuse,
            _ => OnFull::Share,
        };
        Some(())
    }

    pub(super) fn on_excess(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.on_excess = excess::read(entry, report)?;
        Some(())
    }

    pub(super) fn on_store_error(
        &mut self,
        entry: &Entry<'t>,
        report: &mut Report<'_>,
    ) -> Option<()> {
        self.spec.on_store_error = match choice(entry, vocabulary::ON_STORE_ERROR, report)? {
            "closed" => OnStoreError::Closed,
            "local" => OnStoreError::Local,
            _ => OnStoreError::Open,
        };
        Some(())
    }

    pub(super) fn usage(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.usage = match choice(entry, vocabulary::USAGES, report)? {
            "reported" => Usage::Reported,
            _ => Usage::Requested,
        };
        Some(())
    }

    pub(super) fn dedupe(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.dedupe = Some(how_long(entry, DEDUPE_EXPECTED, report)?);
        Some(())
    }

    pub(super) fn hash_tag(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.hash_tag = Some(text(entry, report)?.to_owned());
        Some(())
    }

    pub(super) fn across_slots(
        &mut self,
        entry: &Entry<'t>,
        report: &mut Report<'_>,
    ) -> Option<()> {
        self.spec.across_slots = flag(entry, report)?;
        Some(())
    }

    pub(super) fn limit_from_request(
        &mut self,
        entry: &Entry<'t>,
        report: &mut Report<'_>,
    ) -> Option<()> {
        self.spec.limit_from_request = flag(entry, report)?;
        Some(())
    }

    pub(super) fn mode(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        self.spec.mode = match choice(entry, vocabulary::MODES, report)? {
            "shadow" => Mode::Shadow,
            "off" => Mode::Off,
            _ => Mode::Enforce,
        };
        Some(())
    }

    pub(super) fn matching(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        if entry.value().is_table() {
            let expected =
                "\"subset\" or \"exact\"; the entries a request must have go into `when`";
            return wrong(entry, expected, report);
        }
        self.spec.exact = choice(entry, vocabulary::MATCHES, report)? == "exact";
        Some(())
    }

    pub(super) fn overrides(&mut self, entry: &Entry<'t>, report: &mut Report<'_>) -> Option<()> {
        let expected = "`[[rule.override]]`, in double brackets, for there may be several";
        if let Some(table) = entry.as_table() {
            report
                .add(&entry.place(), format!("`override` is a single table: expected {expected}"));
            self.add_override(OverrideDraft::read(table, report));
            return Some(());
        }
        let tables = tables(entry, expected, report)?;
        tables.into_iter().for_each(|table| self.add_override(OverrideDraft::read(table, report)));
        Some(())
    }

    fn add_override(&mut self, draft: OverrideDraft<'t>) {
        self.spec.overrides.push(draft.spec.clone());
        self.overrides.push(draft);
    }
}
