//! One `[[rule]]`: its fields, and how each is read.

pub(super) mod overrides;

use tidegate_core::{AlgorithmKind, Anchor, Field, Layout};
use toml::de::DeValue;

use super::accept::TableFields;
use super::draft::{OverrideDraft, RuleDraft};
use super::hints::{TEXT, instead};
use super::size::parse_size;
use super::source::ConfigReport;
use super::table::{TomlEntry, TomlTable};
use super::value::{
    choice, count, entries, flag, how_long, keys, kind, length, parsed, tables, text, wrong,
};
use super::vocabulary::MAX_KEYS_ALSO;
use super::{excess, lease, limits, store, vocabulary};
use crate::rules::UP_TO_A_DAY_EXPECTED;
use crate::rules::{Mode, OnFull, OnStoreError, Usage};

pub(super) fn fields<'t>() -> TableFields<'t, RuleDraft<'t>> {
    TableFields::of_fields(
        [
            (("name", &["id"]), RuleDraft::name),
            (("domain", &["namespace"]), RuleDraft::domain),
            (("when", &["where", "if", "condition", "conditions", "descriptor"]), RuleDraft::when),
            (("key", &["by", "variables"]), RuleDraft::key),
            (("algorithm", &["algo", "type", "kind", "strategy"]), RuleDraft::algorithm),
            (("limit", &["max", "maxvalue", "quota", "requests", "count", "n"]), RuleDraft::limit),
            (
                ("window", &["period", "per", "interval", "duration", "seconds", "unit"]),
                RuleDraft::window,
            ),
            (("rate", &["requestsperunit"]), RuleDraft::rate),
            (("buckets", &["slots"]), RuleDraft::buckets),
            (("strict", &[]), RuleDraft::strict),
            (("anchor", &["aligned", "start"]), RuleDraft::anchor),
            (("capacity", &["burst", "maxburst", "size"]), RuleDraft::capacity),
            (("initial", &["initialtokens"]), RuleDraft::initial),
            (("resolution", &[]), RuleDraft::resolution),
            (("layout", &[]), RuleDraft::layout),
            (("max_memory", &["memory"]), RuleDraft::max_memory),
            (("max_debt", &[]), RuleDraft::max_debt),
            (("max_keys", MAX_KEYS_ALSO), RuleDraft::max_keys),
            (("on_full", &["overflow"]), RuleDraft::on_full),
            (("on_excess", &["excess", "queue", "wait"]), RuleDraft::on_excess),
            (("on_store_error", &["failuremode", "failopen"]), RuleDraft::on_store_error),
            (("usage", &["settle"]), RuleDraft::usage),
            (("dedupe", &["dedup", "idempotency"]), RuleDraft::dedupe),
            (("max_life", &["life", "ttl"]), RuleDraft::max_life),
            (("hash_tag", &["tag", "hashtag"]), RuleDraft::hash_tag),
            (("across_slots", &[]), RuleDraft::across_slots),
            (("lease", &["leases", "batch", "local"]), RuleDraft::lease),
            (("split", &["shares", "share"]), RuleDraft::split),
            (("limit_from_request", &[]), RuleDraft::limit_from_request),
            (("near", &["nearlimit"]), RuleDraft::near),
            (("hide_keys", &["hidekey", "redact"]), RuleDraft::hide_keys),
            (("mode", &["shadowmode", "dryrun", "enabled"]), RuleDraft::mode),
            (("match", &[]), RuleDraft::matching),
            (("override", &["overrides", "exception", "exceptions"]), RuleDraft::overrides),
        ],
        only_of_the_store,
    )
}

/// The message for a field of `[store]` that stands in a rule.
fn only_of_the_store(name: &str) -> Option<String> {
    if name == "nodes" {
        return Some("`nodes` is no field of a rule: expected `nodes` below `[store]`".to_owned());
    }
    let is_of_store = store::fields().has(name);
    is_of_store.then(|| format!("`{name}` is not for one rule: expected it below `[store]`"))
}

/// Reads a rule; reports errors in its fields, and the fields it lacks.
pub(super) fn read<'t>(table: TomlTable<'t>, report: &mut ConfigReport<'_>) -> RuleDraft<'t> {
    let mut draft = RuleDraft::new(table.clone());
    let mut failed = fields().read(&table, &mut draft, report);
    failed.extend(limits::untrusted_by_rate(&table, &failed, report));
    failed.extend(missing(&table, &failed, report));
    draft.failed = failed;
    draft
}

/// Reports the required fields that are missing; returns them.
fn missing(
    table: &TomlTable<'_>,
    failed: &[&'static str],
    report: &mut ConfigReport<'_>,
) -> Vec<&'static str> {
    let needed = [
        ("name", "a text of a-z, 0-9, `.`, `_` and `-`, unique in its domain".to_owned()),
        ("limit", format!("{}; or a `rate`, such as \"100/s\"", Field::Limit.expects())),
    ];
    let mut missing = Vec::new();
    for (name, expected) in needed {
        let has_rate = name == "limit" && table.get("rate").is_some();
        if table.get(name).is_some() || failed.contains(&name) || has_rate {
            continue;
        }
        report.add(&table.header, format!("`{name}` is missing: expected {expected}"));
        missing.push(name);
    }
    missing
}

impl<'t> RuleDraft<'t> {
    fn name(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        text(entry, report)?.clone_into(&mut self.spec.name);
        Some(())
    }

    fn domain(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        text(entry, report)?.clone_into(&mut self.spec.domain);
        Some(())
    }

    fn when(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let expected = "a table of entries with their values, such as { path = \"api/*\" }";
        (self.when, self.spec.when) = entries(entry, expected, report)?;
        Some(())
    }

    fn key(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
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
            self.key.push(item.position());
        }
        sound.then_some(())
    }

    fn algorithm(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let given = entry.value().as_str().unwrap_or_default();
        if let Some(known) = AlgorithmKind::from_name(given) {
            self.spec.spec.algorithm = known;
            return Some(());
        }
        let message = instead(given, &vocabulary::algorithms(), TEXT);
        let message = format!("`algorithm` is {}: {message}", kind(entry, report));
        report.add(&entry.position(), message);
        None
    }

    fn limit(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.spec.limit = limits::limit(entry, report)?;
        Some(())
    }

    fn window(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.spec.window = Some(length(entry, Field::Window, report)?);
        Some(())
    }

    fn rate(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let (limit, window) = limits::rate(entry, report)?;
        (self.spec.spec.limit, self.spec.spec.window) = (limit, Some(window));
        Some(())
    }

    fn buckets(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.spec.buckets = Some(count(entry, Field::Buckets, report)?);
        Some(())
    }

    fn strict(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.spec.strict = Some(flag(entry, report)?);
        Some(())
    }

    fn anchor(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let anchor = match choice(entry, vocabulary::ANCHORS, report)? {
            "first_request" => Anchor::FirstRequest,
            _ => Anchor::Epoch,
        };
        self.spec.spec.anchor = Some(anchor);
        Some(())
    }

    fn capacity(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.spec.capacity = Some(count(entry, Field::Capacity, report)?);
        Some(())
    }

    fn initial(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.spec.initial = Some(count(entry, Field::Initial, report)?);
        Some(())
    }

    fn resolution(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.spec.resolution = Some(length(entry, Field::Resolution, report)?);
        Some(())
    }

    fn layout(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let layout = match choice(entry, vocabulary::LAYOUTS, report)? {
            "sorted_set" => Layout::SortedSet,
            _ => Layout::String,
        };
        self.spec.spec.layout = Some(layout);
        Some(())
    }

    fn max_debt(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.spec.max_debt = Some(count(entry, Field::MaxDebt, report)?);
        Some(())
    }

    fn max_memory(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let bytes = match entry.value() {
            DeValue::String(text) => parsed(entry, parse_size(text), report)?,
            _ => count(entry, Field::MaxMemory, report)?,
        };
        self.spec.spec.max_memory = Some(bytes);
        Some(())
    }

    fn max_keys(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.max_keys = Some(keys(entry, report)?);
        Some(())
    }

    fn on_full(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.on_full = match choice(entry, vocabulary::ON_FULL, report)? {
            "refuse" => OnFull::Refuse,
            _ => OnFull::Share,
        };
        Some(())
    }

    fn on_excess(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.on_excess = excess::read(entry, report)?;
        Some(())
    }

    fn on_store_error(
        &mut self,
        entry: &TomlEntry<'t>,
        report: &mut ConfigReport<'_>,
    ) -> Option<()> {
        self.spec.on_store_error = match choice(entry, vocabulary::ON_STORE_ERROR, report)? {
            "closed" => OnStoreError::Closed,
            "local" => OnStoreError::Local,
            _ => OnStoreError::Open,
        };
        Some(())
    }

    fn usage(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.usage = match choice(entry, vocabulary::USAGES, report)? {
            "reported" => Usage::Reported,
            _ => Usage::Requested,
        };
        Some(())
    }

    fn dedupe(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.dedupe = Some(how_long(entry, UP_TO_A_DAY_EXPECTED, report)?);
        Some(())
    }

    fn max_life(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.max_life = Some(how_long(entry, UP_TO_A_DAY_EXPECTED, report)?);
        Some(())
    }

    fn hash_tag(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.hash_tag = Some(text(entry, report)?.to_owned());
        Some(())
    }

    fn across_slots(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.across_slots = flag(entry, report)?;
        Some(())
    }

    fn lease(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.lease = Some(lease::read(entry, report)?);
        Some(())
    }

    fn split(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.split = flag(entry, report)?;
        Some(())
    }

    fn limit_from_request(
        &mut self,
        entry: &TomlEntry<'t>,
        report: &mut ConfigReport<'_>,
    ) -> Option<()> {
        self.spec.limit_from_request = flag(entry, report)?;
        Some(())
    }

    fn near(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let written = match entry.value() {
            DeValue::Float(number) => number.as_str().replace('_', ""),
            DeValue::Integer(number) => number.to_string(),
            _ => {
                let expected =
                    "a number above 0 and at most 1, such as 0.8: a fraction of the limit";
                return wrong(entry, expected, report);
            }
        };
        self.spec.near = Some(parsed(entry, written.parse(), report)?);
        Some(())
    }

    fn hide_keys(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.hide_keys = flag(entry, report)?;
        Some(())
    }

    fn mode(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.spec.mode = match choice(entry, vocabulary::MODES, report)? {
            "shadow" => Mode::Shadow,
            "off" => Mode::Off,
            _ => Mode::Enforce,
        };
        Some(())
    }

    fn matching(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        if entry.value().is_table() {
            let expected =
                "\"subset\" or \"exact\"; the entries a request must have go into `when`";
            return wrong(entry, expected, report);
        }
        self.spec.exact = choice(entry, vocabulary::MATCHES, report)? == "exact";
        Some(())
    }

    fn overrides(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let expected = "`[[rule.override]]`, in double brackets, because there may be several";
        if let Some(table) = entry.as_table() {
            report.add(
                &entry.position(),
                format!("`override` is a single table: expected {expected}"),
            );
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
