//! One `[[rule]]`: its fields, and how each is read.
//!
//! `fields` has a line for each: its name, other names that lead to a hint, the kind of its value, and its reader.

pub(super) mod overrides;

use std::time::Duration;
use tidegate_core::{AlgorithmKind, Field, MAX_LIMIT, Spec};
use toml::de::DeValue;

use self::overrides::OverrideDraft;
use super::accept::TableFields;
use super::kind::ValueKind::{
    self, Either, Entries, Flag, Fraction, Names, Pattern, Tables, Text, Texts, Whole,
};
use super::kind::names;
use super::size::parse_size;
use super::source::{ConfigReport, TextSpan};
use super::table::TomlTable;
use super::value::{Given, put};
use super::vocabulary::{
    ANCHORS, LAYOUTS, MATCHES, MAX_KEYS, MAX_KEYS_ALSO, MODES, ON_FULL, ON_STORE_ERROR, USAGES,
    algorithms,
};
use super::{excess, lease, limits, store};
use tidegate_rules::rules::{MAX_KEYS_EXPECTED, Near, RuleSpec, UP_TO_A_DAY_EXPECTED};

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

pub(super) fn fields<'t>() -> TableFields<'t, RuleDraft<'t>> {
    TableFields::<RuleDraft<'t>>::of_fields([
        (("name", &["id"]), Pattern("^[a-z0-9._-]{1,64}$"), |rule, given| {
            put(&mut rule.spec.name, given.text())
        }),
        (("domain", &["namespace"]), Text, |rule, given| put(&mut rule.spec.domain, given.text())),
        (
            ("when", &["where", "if", "condition", "conditions", "descriptor"]),
            Entries(&Text),
            RuleDraft::when,
        ),
        (("key", &["by", "variables"]), Texts, RuleDraft::key),
        (
            ("algorithm", &["algo", "type", "kind", "strategy"]),
            Names(|| names(&algorithms())),
            |rule, given| put(&mut rule.spec.spec.algorithm, given.choice(&algorithms())),
        ),
        (
            ("limit", &["max", "maxvalue", "quota", "requests", "count", "n"]),
            ValueKind::LIMIT,
            |rule, given| put(&mut rule.spec.spec.limit, limits::limit(given)),
        ),
        (
            ("window", &["period", "per", "interval", "duration", "seconds", "unit"]),
            ValueKind::TIME,
            |rule, given| put(&mut rule.spec.spec.window, given.how_long(Field::Window.expects())),
        ),
        (("rate", &["requestsperunit"]), ValueKind::RATE, RuleDraft::rate),
        (("buckets", &["slots"]), Whole(1, 1_000), |rule, given| {
            put(&mut rule.spec.spec.buckets, given.count(Field::Buckets))
        }),
        (("strict", &[]), Flag, |rule, given| put(&mut rule.spec.spec.strict, given.flag())),
        (("anchor", &["aligned", "start"]), Names(|| names(ANCHORS)), |rule, given| {
            put(&mut rule.spec.spec.anchor, given.choice(ANCHORS))
        }),
        (("capacity", &["burst", "maxburst", "size"]), Whole(0, MAX_LIMIT), |rule, given| {
            put(&mut rule.spec.spec.capacity, given.count(Field::Capacity))
        }),
        (("initial", &["initialtokens"]), Whole(0, MAX_LIMIT), |rule, given| {
            put(&mut rule.spec.spec.initial, given.count(Field::Initial))
        }),
        (("resolution", &[]), ValueKind::TIME, |rule, given| {
            put(&mut rule.spec.spec.resolution, given.how_long(Field::Resolution.expects()))
        }),
        (("layout", &[]), Names(|| names(LAYOUTS)), |rule, given| {
            put(&mut rule.spec.spec.layout, given.choice(LAYOUTS))
        }),
        (
            ("max_memory", &["memory"]),
            Either(&[ValueKind::SIZE, Whole(1 << 10, 1 << 40)]),
            RuleDraft::max_memory,
        ),
        (("max_debt", &[]), Whole(0, u64::MAX), |rule, given| {
            put(&mut rule.spec.spec.max_debt, given.count(Field::MaxDebt))
        }),
        (("max_keys", MAX_KEYS_ALSO), MAX_KEYS, |rule, given| {
            put(&mut rule.spec.max_keys, given.number::<usize>(MAX_KEYS_EXPECTED))
        }),
        (("on_full", &["overflow"]), Names(|| names(ON_FULL)), |rule, given| {
            put(&mut rule.spec.on_full, given.choice(ON_FULL))
        }),
        (("on_excess", &["excess", "queue", "wait"]), excess::KIND, |rule, given| {
            put(&mut rule.spec.on_excess, excess::read(given))
        }),
        (
            ("on_store_error", &["failuremode", "failopen"]),
            Names(|| names(ON_STORE_ERROR)),
            |rule, given| put(&mut rule.spec.on_store_error, given.choice(ON_STORE_ERROR)),
        ),
        (("usage", &["settle"]), Names(|| names(USAGES)), |rule, given| {
            put(&mut rule.spec.usage, given.choice(USAGES))
        }),
        (("dedupe", &["dedup", "idempotency"]), ValueKind::TIME, |rule, given| {
            put(&mut rule.spec.dedupe, given.how_long(UP_TO_A_DAY_EXPECTED))
        }),
        (("max_life", &["life", "ttl"]), ValueKind::TIME, |rule, given| {
            put(&mut rule.spec.max_life, given.how_long(UP_TO_A_DAY_EXPECTED))
        }),
        (("hash_tag", &["tag", "hashtag"]), Text, |rule, given| {
            put(&mut rule.spec.hash_tag, given.text().map(str::to_owned))
        }),
        (("across_slots", &[]), Flag, |rule, given| put(&mut rule.spec.across_slots, given.flag())),
        (("lease", &["leases", "batch", "local"]), lease::KIND, |rule, given| {
            put(&mut rule.spec.lease, lease::read(given))
        }),
        (("split", &["shares", "share"]), Flag, |rule, given| {
            put(&mut rule.spec.split, given.flag())
        }),
        (("limit_from_request", &[]), Flag, |rule, given| {
            put(&mut rule.spec.limit_from_request, given.flag())
        }),
        (("near", &["nearlimit"]), Fraction, RuleDraft::near),
        (("hide_keys", &["hidekey", "redact"]), Flag, |rule, given| {
            put(&mut rule.spec.hide_keys, given.flag())
        }),
        (("mode", &["shadowmode", "dryrun", "enabled"]), Names(|| names(MODES)), |rule, given| {
            put(&mut rule.spec.mode, given.choice(MODES))
        }),
        (("match", &[]), Names(|| names(MATCHES)), RuleDraft::matching),
        (
            ("override", &["overrides", "exception", "exceptions"]),
            Tables(|| overrides::fields().kinds()),
            RuleDraft::overrides,
        ),
    ])
    .elsewhere(elsewhere)
}

/// The message for a name that belongs elsewhere: below `[store]`, or into the program.
fn elsewhere(name: &str) -> Option<String> {
    if name == "nodes" {
        return Some("`nodes` is no field of a rule: expected `nodes` below `[store]`".to_owned());
    }
    if name == "ban" {
        return Some(
            "`ban` is no field of a rule: expected `Setup::ban` in the program".to_owned(),
        );
    }
    let is_of_store = store::fields().has(name);
    is_of_store.then(|| format!("`{name}` is not for one rule: expected it below `[store]`"))
}

/// Reads a rule; reports errors in its fields, and the fields it lacks.
pub(super) fn read<'t>(table: TomlTable<'t>, report: &mut ConfigReport<'_>) -> RuleDraft<'t> {
    let mut values = Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(1));
    // A rule has no window until its window is read, because a limit of -1 or 0 needs none.
    values.window = None;
    let mut draft = RuleDraft {
        table: table.clone(),
        failed: Vec::new(),
        spec: RuleSpec::new("", values),
        when: TomlTable::default(),
        key: Vec::new(),
        overrides: Vec::new(),
    };
    let mut failed = fields().read(&table, &mut draft, report);
    failed.extend(limits::untrusted_by_rate(&table, &failed, report));
    let expected = "a text of a-z, 0-9, `.`, `_` and `-`, unique in its domain";
    if table.lacks("name", expected, &failed, report) {
        failed.push("name");
    }
    let expected = format!("{}; or a `rate`, such as \"100/s\"", Field::Limit.expects());
    // A `rate` stands for the limit, even if it is wrong, which has then been reported.
    if table.get("rate").is_none() && table.lacks("limit", &expected, &failed, report) {
        failed.push("limit");
    }
    draft.failed = failed;
    draft
}

impl<'t> RuleDraft<'t> {
    fn when(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let expected = "a table of entries with their values, such as { path = \"api/*\" }";
        (self.when, self.spec.when) = given.entries(expected)?;
        Some(())
    }

    fn key(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        if let DeValue::String(name) = given.value() {
            return given.wrong(&format!("a list of names: [{name:?}]"));
        }
        let list = given.entry.as_list();
        let mut sound = true;
        for item in list.or_else(|| given.wrong("a list of names, such as [\"user\"]"))? {
            let name = given.of(&item).text();
            sound &= name.is_some();
            // A name that could not be read keeps its place, so that names and positions belong together.
            self.spec.key.push(name.unwrap_or_default().to_owned());
            self.key.push(item.position());
        }
        sound.then_some(())
    }

    fn rate(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let (limit, window) = limits::rate(given)?;
        (self.spec.spec.limit, self.spec.spec.window) = (limit, Some(window));
        Some(())
    }

    fn max_memory(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let bytes = match given.value() {
            DeValue::String(text) => given.parsed(parse_size(text)),
            _ => given.count(Field::MaxMemory),
        };
        put(&mut self.spec.spec.max_memory, bytes)
    }

    fn near(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let written = match given.value() {
            // The digits as written, because a binary fraction would round them.
            DeValue::Float(number) => number.as_str().replace('_', ""),
            DeValue::Integer(number) => number.to_string(),
            _ => {
                let expected =
                    "a number above 0 and at most 1, such as 0.8: a fraction of the limit";
                return given.wrong(expected);
            }
        };
        put(&mut self.spec.near, given.parsed(written.parse::<Near>()))
    }

    fn matching(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        if given.value().is_table() {
            let expected =
                "\"subset\" or \"exact\"; the entries a request must have go into `when`";
            return given.wrong(expected);
        }
        put(&mut self.spec.exact, given.choice(MATCHES))
    }

    fn overrides(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let expected = "`[[rule.override]]`, in double brackets, because there may be several";
        for table in given.tables(expected)? {
            let draft = overrides::read(table, given.report);
            self.spec.overrides.push(draft.spec.clone());
            self.overrides.push(draft);
        }
        Some(())
    }
}
