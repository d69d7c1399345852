//! The house step: rules of this project that no tool of the toolchain checks.

mod arrows;
mod book;
mod commands;
mod events;
mod folders;
mod lengths;
mod links;
mod markdown;
mod numbers;
mod openings;
mod purity;
mod translations;

use anyhow::Result;
use cargo_metadata::Metadata;

use crate::context::Context;
use crate::step::Outcome;
use crate::tree::{self, SourceFile};

/// The input of a rule.
struct House<'a> {
    metadata: &'a Metadata,
    files: Vec<SourceFile>,
}

/// The findings of a rule.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    /// Violations, each with its position, the mistake, and its correction.
    complaints: Vec<String>,
    /// Remarks that violate nothing.
    notes: Vec<String>,
    /// The notes in a few words, for the summary; empty without notes.
    remark: String,
}

impl From<Vec<String>> for Findings {
    fn from(complaints: Vec<String>) -> Self {
        Self { complaints, ..Self::default() }
    }
}

/// A house rule: an entry of [`RULES`].
struct Rule {
    name: &'static str,
    what: &'static str,
    check: Check,
}

/// The function of a rule.
type Check = fn(&House<'_>) -> Findings;

const fn rule(name: &'static str, what: &'static str, check: Check) -> Rule {
    Rule { name, what, check }
}

/// All rules; a new rule is one file and one entry.
const RULES: &[Rule] = &[
    rule("arrows", "crates depend downward only: core <- engine <- lab <- server", arrows::check),
    rule("folders", "the modules of a folder import each other in one direction", folders::check),
    rule("purity", "the core is no_std, without unsafe code, without floats", purity::check),
    rule("openings", "every Rust file opens with `//!` and its one purpose", openings::check),
    rule("lengths", "no Rust file is too long to be read", lengths::check),
    rule(
        "translations",
        "translated pages have the parts and commands of their originals",
        translations::check,
    ),
    rule("links", "local links in documents lead somewhere", links::check),
    rule("book", "every page is in the contents, and code of every page is compiled", book::check),
    rule(
        "commands",
        "the programs, steps, examples and packages in shell lines exist",
        commands::check,
    ),
    rule(
        "events",
        "docs/errors.md has every event of the log, and no text that the code does not have",
        events::check,
    ),
    rule(
        "numbers",
        "numbers of the READMEs and of docs/PERFORMANCE.md are the numbers of the results",
        numbers::check,
    ),
];

/// Applies every rule, and names the broken ones.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let house = House { metadata: &context.metadata, files: tree::read(context.root())? };
    let (mut broken, mut remarks) = (Vec::new(), Vec::new());
    for rule in RULES {
        let findings = (rule.check)(&house);
        report(rule, &findings);
        if !findings.complaints.is_empty() {
            broken.push(format!("{} ({})", rule.name, findings.complaints.len()));
        }
        remarks.extend(Some(findings.remark).filter(|remark| !remark.is_empty()));
    }
    Ok(outcome(&broken, &remarks))
}

fn report(rule: &Rule, findings: &Findings) {
    let word = if findings.complaints.is_empty() { "ok" } else { "BROKEN" };
    println!("{word:<6} {:<12} {}", rule.name, rule.what);
    for complaint in &findings.complaints {
        println!("       - {complaint}");
    }
    for note in &findings.notes {
        println!("       . {note}");
    }
}

fn outcome(broken: &[String], remarks: &[String]) -> Outcome {
    if broken.is_empty() {
        return Outcome::Passed(remarks.join("; "));
    }
    let said = std::iter::once(format!("broken: {}", broken.join(", ")));
    Outcome::Failed(said.chain(remarks.iter().cloned()).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_names_what_is_broken_and_keeps_the_remarks() {
        let outcome = outcome(&["links (2)".into()], &["1 long file".into()]);
        assert_eq!(outcome, Outcome::Failed("broken: links (2); 1 long file".into()));
    }
}
