//! The position in the file of an error that was found only in the policy as a whole.
//!
//! The checks of a policy know no file. Here each of their errors gets the place of the value that caused it, or is
//! dropped as the *echo* of an error that was reported before.

use tidegate_core::text::{HIDDEN, without_credentials};
use tidegate_core::{Field, RuleError};

use super::hints::{Called, nearest};
use super::rule::RuleDraft;
use super::rule::overrides::OverrideDraft;
use super::source::{ConfigReport, TextSpan};
use super::table::TomlTable;
use tidegate_rules::rules::{ErrorPosition, Place, PolicyError, Problem, causes};

/// Returns whether an error is an *echo*: it only follows from a value that could not be read, which has been reported.
pub(super) fn is_echo(error: &PolicyError, rules: &[RuleDraft<'_>]) -> bool {
    let Some(rule) = rules.get(error.rule) else { return false };
    let other = override_of(error, rule);
    match &error.problem {
        Problem::SameName(earlier)
        | Problem::AcrossSlots { earlier, .. }
        | Problem::QueuesAcrossSlots { earlier, .. } => {
            let (read, _) = causes(&error.problem);
            let both = [Some(rule), rules.get(*earlier)];
            both.into_iter().flatten().any(|rule| any_failed(&rule.failed, read))
        }
        Problem::MatchesNothing => match_failed(other),
        Problem::Unreachable(earlier) => {
            match_failed(other) || match_failed(rule.overrides.get(*earlier))
        }
        Problem::Values(rule_error) => is_echo_of_rule_error(rule_error, rule, other),
        problem => any_failed(&rule.failed, causes(problem).0),
    }
}

fn any_failed(failed: &[&str], names: &[&str]) -> bool {
    names.iter().any(|name| failed.contains(name))
}

fn match_failed(other: Option<&OverrideDraft<'_>>) -> bool {
    other.is_some_and(|other| other.failed.contains(&"match"))
}

/// The fields from which no limit or window is taken.
const WITHOUT_LIMITS: &[&str] = &[
    "name",
    "domain",
    "when",
    "key",
    "match",
    "mode",
    "max_keys",
    "on_full",
    "on_excess",
    "usage",
    "dedupe",
    "max_life",
];

fn is_echo_of_rule_error(
    error: &RuleError,
    rule: &RuleDraft<'_>,
    other: Option<&OverrideDraft<'_>>,
) -> bool {
    let of_override = other.map_or(&[][..], |other| &other.failed);
    let failed = [&rule.failed, of_override].concat();
    match error {
        RuleError::Missing { .. } => any_failed(&failed, &["limit", "window"]),
        RuleError::Meaningless { .. } => any_failed(&failed, &["algorithm"]),
        // Not `initial` and `resolution`, whose ranges depend on other fields.
        RuleError::OutOfRange { field, .. }
            if !matches!(field, Field::Initial | Field::Resolution) =>
        {
            any_failed(&failed, &[field.name()])
        }
        // The other errors compare several values.
        _ => failed.iter().any(|name| !WITHOUT_LIMITS.contains(name)),
    }
}

fn override_of<'r, 't>(
    error: &PolicyError,
    rule: &'r RuleDraft<'t>,
) -> Option<&'r OverrideDraft<'t>> {
    match error.place {
        Place::Rule => None,
        Place::Override(number) => rule.overrides.get(number),
    }
}

/// The position of an error, and its text.
pub(super) fn of(
    error: &PolicyError,
    rules: &[RuleDraft<'_>],
    report: &ConfigReport<'_>,
) -> (TextSpan, String) {
    let message = error.problem.to_string();
    let message = without_credentials(&message);
    let Some(rule) = rules.get(error.rule) else { return (0..0, message.into_owned()) };
    let other = override_of(error, rule);
    let table = other.map_or(&rule.table, |other| &other.table);
    let span = match causes(&error.problem).1 {
        ErrorPosition::Field(names) => table.position_of(names),
        ErrorPosition::Inside(outer, name) => position_inside(outer, name, table),
        ErrorPosition::Duplicate(name) => position_of_duplicate(name, rule),
        ErrorPosition::Value(value) => position_of_value(value, rule),
        ErrorPosition::Entry(name) => {
            let entry = other.and_then(|other| other.entries.get(name));
            entry.map_or(table.header.clone(), |entry| entry.key.clone())
        }
        ErrorPosition::Limit(rule_error) => position_of_limit(rule_error, table),
    };
    // Its text repeats the value, which may be a secret at this place.
    if matches!(error.problem, Problem::StarInside(_)) && report.is_secret(&span) {
        return (span, Problem::StarInside(HIDDEN.to_owned()).to_string());
    }
    (span, format!("{message}{}", more(error, rules, report)))
}

/// Further text for the reader of a file: the other line, or the fields that an override may change.
fn more(error: &PolicyError, rules: &[RuleDraft<'_>], report: &ConfigReport<'_>) -> String {
    let rule = rules.get(error.rule);
    match (&error.problem, error.place) {
        (Problem::SameName(earlier), _) => rules.get(*earlier).map(|first| {
            format!(" (the first is on line {})", line_of(&first.table, "name", report))
        }),
        (Problem::AcrossSlots { earlier, .. } | Problem::QueuesAcrossSlots { earlier, .. }, _) => {
            rules.get(*earlier).map(|first| {
                format!(" (that rule is on line {})", line_of(&first.table, "name", report))
            })
        }
        (Problem::Unreachable(earlier), _) => {
            rule.and_then(|rule| rule.overrides.get(*earlier)).map(|first| {
                format!(" (that override is on line {})", line_of(&first.table, "match", report))
            })
        }
        (Problem::NotInKey(name), _) => rule.and_then(|rule| {
            let words: Vec<Called<'_>> =
                rule.spec.key.iter().map(|name| (name.as_str(), &[][..])).collect();
            nearest(name, &words).map(|name| format!("; did you mean `{}`?", name.escape_debug()))
        }),
        // The error names `buckets`, which only the rule has.
        (Problem::Values(RuleError::Indivisible { .. }), Place::Override(_)) => {
            Some(" (an override changes only the window)".to_owned())
        }
        _ => None,
    }
    .unwrap_or_default()
}

fn line_of(table: &TomlTable<'_>, name: &'static str, report: &ConfigReport<'_>) -> usize {
    report.line(&table.position_of(&[name]))
}

/// The position of a field of a table within a rule.
fn position_inside(outer: &'static str, name: &'static str, table: &TomlTable<'_>) -> TextSpan {
    let inner = table.get(outer).and_then(|entry| entry.as_table());
    inner.map_or_else(|| table.position_of(&[outer]), |inner| inner.position_of(&[name]))
}

/// The position of the second of the names in `key`, or of the nameless one, there or in `when`.
fn position_of_duplicate(name: &str, rule: &RuleDraft<'_>) -> TextSpan {
    let names = rule.spec.key.iter().zip(&rule.key).filter(|(other, _)| *other == name);
    let in_key = names.map(|(_, span)| span.clone()).next_back();
    // The last of them is the repetition.
    in_key
        .or_else(|| rule.when.get(name).map(|entry| entry.key.clone()))
        .unwrap_or_else(|| rule.table.header.clone())
}

fn position_of_value(value: &str, rule: &RuleDraft<'_>) -> TextSpan {
    let entry = rule.when.entries.iter().find(|entry| entry.value().as_str() == Some(value));
    entry.map_or(rule.table.header.clone(), |entry| entry.position())
}

/// The position of the value itself, or of the field that it was taken from.
fn position_of_limit(error: &RuleError, table: &TomlTable<'_>) -> TextSpan {
    let field = error.field().name();
    match error {
        RuleError::Missing { .. } => table.header.clone(),
        RuleError::Indivisible { .. } => table.position_of(&[field, "window", "rate"]),
        RuleError::TooLarge { .. } => table.position_of(&[field, "limit", "rate", "window"]),
        RuleError::OutOfRange { field: Field::Window | Field::Limit, .. } => {
            table.position_of(&[field, "rate"])
        }
        _ => table.position_of(&[field, "capacity", "limit", "rate", "window"]),
    }
}
