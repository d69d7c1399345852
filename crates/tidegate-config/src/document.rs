//! A whole file: its sections, and the policy that its rules form.
//!
//! Each field is read by itself, and then `Policy::new` checks the rules together. A text is first read in parts; if it
//! has a mistake, it is read again as a whole, because only the tree of the whole text has the positions of all rules.

use std::mem;
use std::num::{NonZeroU32, NonZeroUsize};

use super::accept::{Read, TableFields};
use super::hints::nearest;
use super::kind::ValueKind::{Names, Table, Tables, Whole};
use super::kind::{FieldKinds, names};
use super::on_no_rule::{self, OnNoRuleDraft};
use super::rule::RuleDraft;
use super::section::{self, Section, SectionValues};
use super::source::{ConfigReport, ConfigSource};
use super::table::TomlTable;
use super::value::{Given, put};
use super::vocabulary::{MAX_KEYS, MAX_KEYS_ALSO, RESETS};
use super::{parts, positions, rule, store, syntax};
use tidegate_rules::rules::{
    MAX_KEYS_EXPECTED, MOST_MAX_KEYS, Policy, PolicyErrors, ResetField, RuleSpec,
};
use tidegate_rules::settings::StoreSettings;

/// The contents of a file's sections.
#[derive(Default)]
struct Document<'t> {
    rules: Vec<RuleDraft<'t>>,
    settings: Settings,
    /// The section of the program that uses this library.
    own: Option<&'t Section<'t>>,
}

/// The contents of the sections that are no rules.
#[derive(Default)]
struct Settings {
    revision: Option<NonZeroU32>,
    reset: ResetField,
    on_no_rule: OnNoRuleDraft,
    /// The number of keys that all rules together may keep in memory.
    max_keys: Option<NonZeroUsize>,
    store: Option<StoreSettings>,
    /// The values in the section of the program.
    own: SectionValues,
}

/// The top-level sections of a file, including the section that the program adds. Another section is one more line here
/// and its reader.
fn sections<'t>(own: Option<&Section<'_>>) -> TableFields<'t, Document<'t>> {
    let kind = Table(FieldKinds::new);
    let own = own.map(|own| ((own.name, &[][..]), kind, Document::own as Read<'t, Document<'t>>));
    let fields: [_; 6] = [
        (
            ("rule", &["limit", "limits"][..]),
            Tables(|| rule::fields().kinds()),
            Document::rule as Read<'t, _>,
        ),
        (("revision", &["version"]), Whole(1, u32::MAX as u64), Document::revision),
        (("reset", &[]), Names(|| names(RESETS)), |file, given| {
            put(&mut file.settings.reset, given.choice(RESETS))
        }),
        (("on_no_rule", &[]), on_no_rule::KIND, |file, given| {
            put(&mut file.settings.on_no_rule, OnNoRuleDraft::read(given))
        }),
        (("memory", &[]), Table(|| memory_fields().kinds()), Document::memory),
        (
            ("store", &["redis", "valkey", "backend"]),
            Table(|| store::fields().kinds()),
            Document::store,
        ),
    ];
    TableFields {
        what: "section",
        quotes: |name| match name {
            "rule" => "`[[rule]]`".to_owned(),
            field @ ("revision" | "reset" | "on_no_rule") => format!("`{field}`"),
            name => format!("`[{name}]`"),
        },
        fields: fields.into_iter().chain(own).collect(),
        elsewhere: belongs_in_section,
    }
}

/// The sections of every file, and the kinds of their values.
pub(super) fn kinds() -> FieldKinds {
    sections(None).kinds()
}

/// The message for a field before any section, or a section of a rule that stands alone.
fn belongs_in_section(name: &str) -> Option<String> {
    let section = match name {
        "override" => "expected `[[rule.override]]`, below the `[[rule]]` it is for",
        // Two sections have this field, so both are named.
        "max_keys" => "expected it below the header of a rule, `[[rule]]`, or of all, `[memory]`",
        "limit" | "rate" => "expected it below the header of a rule, `[[rule]]`",
        _ if rule::fields().has(name) => "expected it below the header of a rule, `[[rule]]`",
        _ if nearest(name, &[("override", &["overrides"])]).is_some() => {
            "did you mean `[[rule.override]]`?"
        }
        _ => return None,
    };
    Some(format!("`{name}` stands outside any rule: {section}"))
}

/// Reads a text, and in it also the section of the program. Errors are added to the report; `None` if they leave no
/// policy. A policy may be returned together with errors, so the caller must look at the report.
pub(super) fn read(
    text: &str,
    own: Option<&Section<'_>>,
    report: &mut ConfigReport<'_>,
) -> Option<(Policy, SectionValues)> {
    let tree = syntax::read(text, report);
    let table = TomlTable::new(0..0, tree.root.get_ref());
    let mut document = Document { own, ..Document::default() };
    sections(own).read(&table, &mut document, report);
    // Only of a whole and valid text: otherwise the rules may be in the part that could not be read.
    if tree.whole && document.rules.is_empty() && report.is_empty() {
        report.add(
            &(0..0),
            "there is no rule, and everything would be admitted: expected at least one `[[rule]]`; to \
             switch one off, give it `mode = \"off\"`",
        );
    }
    document.into_policy(report)
}

/// A valid rule has more bytes than this.
const LEAST_BYTES_OF_A_RULE: usize = 40;

/// Reads a text without a mistake, in parts of at least so many bytes; `None` if it has a mistake, or if it can only be
/// read as a whole.
pub(super) fn read_in_parts(
    text: &str,
    least_bytes: usize,
    own: Option<&Section<'_>>,
) -> Option<(Policy, SectionValues)> {
    let headers = parts::headers(text);
    // A list that grows is copied many times, and leaves free memory that the limiters would use again.
    let mut specs = Vec::with_capacity(headers.len().min(text.len() / LEAST_BYTES_OF_A_RULE));
    let mut settings = Settings::default();
    let is_read = parts::read_each(text, &headers, least_bytes, |part, table| {
        // Its positions are in the part, and no error is shown.
        let source = ConfigSource::new("", part);
        let mut report = ConfigReport::new(&source);
        let before = mem::take(&mut settings);
        let mut document = Document { rules: Vec::new(), settings: before, own };
        sections(own).read(table, &mut document, &mut report);
        specs.extend(document.rules.into_iter().map(|draft| draft.spec));
        settings = document.settings;
        report.is_empty()
    });
    (is_read && !specs.is_empty()).then(|| settings.policy(specs).ok())?
}

impl Settings {
    /// The policy of these rules, if they are valid, alone and together, and can live in the store that the file names.
    fn policy(self, specs: Vec<RuleSpec>) -> Result<(Policy, SectionValues), PolicyErrors> {
        let mut policy = Policy::new(specs)?;
        self.store.as_ref().map_or(Ok(()), |store| policy.fits(store))?;
        policy = self.on_no_rule.applied_to(policy.with_reset_field(self.reset));
        if let Some(max_keys) = self.max_keys {
            policy = policy.with_max_keys(max_keys);
        }
        if let Some(revision) = self.revision {
            policy = policy.with_revision(revision);
        }
        if let Some(store) = self.store {
            policy = policy.with_store(store);
        }
        Ok((policy, self.own))
    }
}

impl<'t> Document<'t> {
    fn rule(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let expected = "`[[rule]]`, in double brackets, because there may be several";
        let tables = given.tables(expected)?;
        self.rules.extend(tables.into_iter().map(|table| rule::read(table, given.report)));
        Some(())
    }

    /// The field `revision`, before all sections.
    fn revision(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let expected = "a whole number from 1 to 4294967295, a larger one with each change";
        let revision = NonZeroU32::new(given.number(expected)?);
        put(&mut self.settings.revision, revision.or_else(|| given.wrong(expected)))
    }

    fn memory(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let table = given.table("`[memory]`, in single brackets, with `max_keys`")?;
        self.settings.max_keys = read_memory(&table, given.report);
        Some(())
    }

    fn store(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let table = given.table("`[store]`, in single brackets, with `url`")?;
        self.settings.store = store::read(&table, given.report);
        Some(())
    }

    /// The section of the program.
    fn own(&mut self, given: &mut Given<'_, 't, '_>) -> Option<()> {
        let own = self.own?;
        let expected = format!("`[{}]`, in single brackets, with its fields", own.name);
        self.settings.own = section::read(own, &given.table(&expected)?, given.report);
        Some(())
    }

    /// The policy, if its rules are valid, alone and together.
    fn into_policy(self, report: &mut ConfigReport<'_>) -> Option<(Policy, SectionValues)> {
        let specs = self.rules.iter().map(|draft| draft.spec.clone()).collect();
        let errors = match self.settings.policy(specs) {
            Ok(policy) => return Some(policy),
            Err(errors) => errors,
        };
        let was_empty = report.is_empty();
        for error in errors.iter().filter(|error| !positions::is_echo(error, &self.rules)) {
            let (span, message) = positions::of(error, &self.rules, report);
            report.add(&span, message);
        }
        // An echo only follows from an error that was reported before. Without such an error the echoes are reported
        // themselves.
        if was_empty && report.is_empty() {
            report.add(&(0..0), errors);
        }
        None
    }
}

/// The fields of the section `[memory]`: the memory that all rules together may use.
fn memory_fields<'t>() -> TableFields<'t, Option<NonZeroUsize>> {
    TableFields::<Option<NonZeroUsize>>::of_fields([(
        ("max_keys", MAX_KEYS_ALSO),
        MAX_KEYS,
        max_keys,
    )])
    .elsewhere(only_of_a_rule)
}

/// The message for a field of a rule that stands in `[memory]`.
fn only_of_a_rule(name: &str) -> Option<String> {
    rule::fields()
        .has(name)
        .then(|| format!("`{name}` is not for all rules together: expected it below a `[[rule]]`"))
}

/// Reads the section; reports its errors, and an empty section.
fn read_memory(table: &TomlTable<'_>, report: &mut ConfigReport<'_>) -> Option<NonZeroUsize> {
    let mut most = None;
    memory_fields().read(table, &mut most, report);
    if table.entries.is_empty() {
        let expected = format!("expected `max_keys`, {MAX_KEYS_EXPECTED}");
        report.add(&table.header, format!("`[memory]` says nothing: {expected}"));
    }
    most
}

fn max_keys(most: &mut Option<NonZeroUsize>, given: &mut Given<'_, '_, '_>) -> Option<()> {
    let number = NonZeroUsize::new(given.number(MAX_KEYS_EXPECTED)?);
    let in_range = number.filter(|number| number.get() <= MOST_MAX_KEYS);
    *most = Some(in_range.or_else(|| given.wrong(MAX_KEYS_EXPECTED))?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page that lists all fields, by its sections.
    const PAGE: &str = include_str!("../../../docs/configuration.md");

    #[test]
    fn reset_is_seconds_or_unix() {
        let rule = "[[rule]]\nname = \"a\"\nalgorithm = \"token_bucket\"\nrate = \"1/s\"\n";
        let parsed = |reset: &str| crate::parse("test", &format!("{reset}\n{rule}"));
        for (text, expected) in [
            ("", ResetField::Seconds),
            ("reset = \"seconds\"", ResetField::Seconds),
            ("reset = \"unix\"", ResetField::Unix),
        ] {
            assert_eq!(parsed(text).unwrap().reset_field(), expected, "{text}");
        }
        let error = parsed("reset = \"epoch\"").unwrap_err().to_string();
        assert!(
            error.contains("test:1:9: `reset` is the text \"epoch\"") && error.contains("unix"),
            "{error}"
        );
    }

    #[test]
    fn the_page_of_all_fields_lists_all_fields() {
        for (header, words) in [
            ("[[rule]]", rule::fields().names().collect::<Vec<_>>()),
            ("[[rule.override]]", rule::overrides::fields().names().collect()),
            ("[memory]", memory_fields().names().collect()),
            ("[store]", store::fields().names().collect()),
        ] {
            let section =
                PAGE.split("\n## ").find(|section| section.starts_with(&format!("`{header}`")));
            let rows = section.unwrap_or_default().lines().filter(|line| line.starts_with("| `"));
            let named: Vec<_> = rows.filter_map(|row| row.split('|').nth(1)).collect();
            for (field, _) in words {
                assert!(
                    named.iter().any(|row| row.contains(&format!("`{field}`"))),
                    "{header} {field}"
                );
            }
        }
    }
}
