//! A whole file: its sections, and the policy that its rules form.

use std::num::NonZeroU32;

use super::accept::{Read, TableFields};
use super::draft::RuleDraft;
use super::hints::nearest;
use super::memory::MemoryDraft;
use super::on_no_rule::OnNoRuleDraft;
use super::section::{self, Section, SectionValues};
use super::source::ConfigReport;
use super::store::StoreDraft;
use super::table::{TomlEntry, TomlTable};
use super::value::{choice, tables, whole, wrong};
use super::vocabulary::RESETS;
use super::{positions, rule, store, syntax};
use crate::rules::{Policy, PolicyErrors, ResetField};
use crate::settings::StoreSettings;

/// The contents of a file's sections.
#[derive(Default)]
struct Document<'t> {
    rules: Vec<RuleDraft<'t>>,
    revision: Option<NonZeroU32>,
    reset: ResetField,
    on_no_rule: OnNoRuleDraft,
    memory: MemoryDraft,
    store: Option<StoreSettings>,
    /// The section of the program, and the values that the file has there.
    own: Option<(&'t Section<'t>, SectionValues)>,
}

/// The top-level sections of a file, including the section that the program adds. Another section is one more line here
/// and its reader.
fn sections<'t>(own: Option<&Section<'_>>) -> TableFields<'t, Document<'t>> {
    let own = own.map(|own| ((own.name, &[][..]), Document::own as Read<'t, Document<'t>>));
    TableFields {
        what: "section",
        quotes: |name| match name {
            "rule" => "`[[rule]]`".to_owned(),
            field @ ("revision" | "reset" | "on_no_rule") => format!("`{field}`"),
            name => format!("`[{name}]`"),
        },
        fields: [
            (("rule", &["limit", "limits"][..]), Document::rule as Read<'t, _>),
            (("revision", &["version"]), Document::revision),
            (("reset", &[]), Document::reset),
            (("on_no_rule", &[]), Document::on_no_rule),
            (("memory", &[]), Document::memory),
            (("store", &["redis", "valkey", "backend"]), Document::store),
        ]
        .into_iter()
        .chain(own)
        .collect(),
        elsewhere: belongs_in_section,
    }
}

/// The message for a field before any section, or a section of a rule that stands alone.
fn belongs_in_section(name: &str) -> Option<String> {
    let section = match name {
        "override" => "expected `[[rule.override]]`, below the `[[rule]]` it is for",
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

/// Reads a text, and in it also the section of the program; `None` when there is an error in it,
/// which has then been reported.
pub(super) fn read(
    text: &str,
    own: Option<&Section<'_>>,
    report: &mut ConfigReport<'_>,
) -> Option<(Policy, SectionValues)> {
    let tree = syntax::read(text, report);
    let table = TomlTable::new(0..0, tree.root.get_ref());
    let own = own.map(|own| (own, SectionValues::new()));
    let mut document = Document { own, ..Document::default() };
    sections(document.own.as_ref().map(|(own, _)| *own)).read(&table, &mut document, report);
    if tree.whole && document.rules.is_empty() && report.is_empty() {
        report.add(
            &(0..0),
            "there is no rule, and everything would be admitted: expected at least one `[[rule]]`; to \
             switch one off, give it `mode = \"off\"`",
        );
    }
    let values = document.own.take().map(|(_, values)| values);
    Some((document.into_policy(report)?, values.unwrap_or_default()))
}

impl<'t> Document<'t> {
    fn rule(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let expected = "`[[rule]]`, in double brackets, because there may be several";
        if let Some(table) = entry.as_table() {
            report.add(&entry.position(), format!("`rule` is a single table: expected {expected}"));
            self.rules.push(rule::read(table, report));
            return Some(());
        }
        let tables = tables(entry, expected, report)?;
        self.rules.extend(tables.into_iter().map(|table| rule::read(table, report)));
        Some(())
    }

    /// The field `revision`, before all sections.
    fn revision(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let expected = "a whole number from 1 to 4294967295, a larger one with each change";
        let given = u32::try_from(whole(entry, expected, report)?).ok().and_then(NonZeroU32::new);
        self.revision = Some(given.or_else(|| wrong(entry, expected, report))?);
        Some(())
    }

    /// The field `reset`, before all sections.
    fn reset(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.reset = match choice(entry, RESETS, report)? {
            "unix" => ResetField::Unix,
            _ => ResetField::Seconds,
        };
        Some(())
    }

    /// The field `on_no_rule`, before all sections.
    fn on_no_rule(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.on_no_rule = OnNoRuleDraft::read(entry, report)?;
        Some(())
    }

    fn memory(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let expected = "`[memory]`, in single brackets, with `max_keys`";
        let table = entry.as_table().or_else(|| wrong(entry, expected, report))?;
        self.memory = MemoryDraft::read(&table, report);
        Some(())
    }

    fn store(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let expected = "`[store]`, in single brackets, with `url`";
        let table = entry.as_table().or_else(|| wrong(entry, expected, report))?;
        self.store = StoreDraft::read(&table, report);
        Some(())
    }

    /// The section of the program.
    fn own(&mut self, entry: &TomlEntry<'t>, report: &mut ConfigReport<'_>) -> Option<()> {
        let (own, values) = self.own.as_mut()?;
        let expected = format!("`[{}]`, in single brackets, with its fields", own.name);
        let table = entry.as_table().or_else(|| wrong(entry, &expected, report))?;
        values.extend(section::read(own, &table, report));
        Some(())
    }

    /// The policy, if its limiters can live in the store that the file names.
    fn fitting(&self, policy: Policy) -> Result<Policy, PolicyErrors> {
        self.store.as_ref().map_or(Ok(()), |store| policy.fits(store))?;
        Ok(policy)
    }

    /// The policy, if its rules are valid, alone and together.
    fn into_policy(self, report: &mut ConfigReport<'_>) -> Option<Policy> {
        let specs = self.rules.iter().map(|draft| draft.spec.clone()).collect();
        let errors = match Policy::new(specs).and_then(|policy| self.fitting(policy)) {
            Ok(policy) => {
                let policy = self.memory.applied_to(policy.with_reset_field(self.reset));
                let policy = self.on_no_rule.applied_to(policy);
                let policy = match self.revision {
                    Some(revision) => policy.with_revision(revision),
                    None => policy,
                };
                return Some(store::applied_to(self.store, policy));
            }
            Err(errors) => errors,
        };
        let before = report.is_empty();
        for error in errors.iter().filter(|error| !positions::is_echo(error, &self.rules)) {
            let (span, message) = positions::of(error, &self.rules, report);
            report.add(&span, message);
        }
        // Only an error that was reported has echoes; if one is ever mistaken for an echo, report
        // it.
        if before && report.is_empty() {
            report.add(&(0..0), errors);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::memory;

    /// The page that lists all fields, by its sections.
    const PAGE: &str = include_str!("../../../../docs/configuration.md");

    #[test]
    fn reset_is_seconds_or_unix() {
        let rule = "[[rule]]\nname = \"a\"\nalgorithm = \"token_bucket\"\nrate = \"1/s\"\n";
        let parsed = |reset: &str| crate::config::parse("test", &format!("{reset}\n{rule}"));
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
            ("[memory]", memory::fields().names().collect()),
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
