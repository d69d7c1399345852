//! The field `on_no_rule`: for all domains, or a table of domains.
//!
//! `document.rs` has it among the sections of a file.

use super::kind::ValueKind::{self, Either, Entries, Names};
use super::kind::names;
use super::value::Given;
use super::vocabulary::ON_NO_RULE;
use tidegate_rules::rules::{OnNoRule, Policy};

/// Its kind.
pub(super) const KIND: ValueKind = Either(&[WORDS, Entries(&WORDS)]);
const WORDS: ValueKind = Names(|| names(ON_NO_RULE));

/// The name of all domains that the table does not name.
const ELSEWHERE: &str = "*";

/// The treatment of requests that no rule matches, as far as it could be read.
#[derive(Default)]
pub(super) struct OnNoRuleDraft {
    elsewhere: OnNoRule,
    by_domain: Vec<(String, OnNoRule)>,
}

impl OnNoRuleDraft {
    /// Reads a word, or a table of words; reports all errors.
    pub(super) fn read(given: &mut Given<'_, '_, '_>) -> Option<Self> {
        if given.value().is_str() {
            return Some(Self { elsewhere: given.choice(ON_NO_RULE)?, by_domain: Vec::new() });
        }
        let expected = "\"admit\", \"refuse\", or a table of domains, such as { pay = \"refuse\", \"*\" = \"admit\" }";
        let table = given.table(expected)?;
        let mut draft = Self::default();
        for entry in &table.entries {
            // A wrong word has been reported, and the other domains are still read.
            let Some(word) = given.of(entry).choice(ON_NO_RULE) else { continue };
            match entry.name {
                ELSEWHERE => draft.elsewhere = word,
                domain => draft.by_domain.push((domain.to_owned(), word)),
            }
        }
        Some(draft)
    }

    pub(super) fn applied_to(&self, policy: Policy) -> Policy {
        let all = policy.with_on_no_rule(self.elsewhere);
        self.by_domain.iter().fold(all, |policy, (domain, on_no_rule)| {
            policy.with_on_no_rule_in(domain, *on_no_rule)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(field: &str) -> Result<Policy, String> {
        let rule = "[[rule]]\nname = \"a\"\nalgorithm = \"token_bucket\"\nrate = \"1/s\"\n";
        crate::parse("test", &format!("{field}\n{rule}")).map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_for_all_domains_or_by_domain() {
        use OnNoRule::{Admit, Refuse};
        for (field, pay, other) in [
            ("", Admit, Admit),
            ("on_no_rule = \"admit\"", Admit, Admit),
            ("on_no_rule = \"refuse\"", Refuse, Refuse),
            ("on_no_rule = { pay = \"refuse\" }", Refuse, Admit),
            ("on_no_rule = { pay = \"admit\", \"*\" = \"refuse\" }", Admit, Refuse),
        ] {
            let policy = parsed(field).unwrap();
            assert_eq!((policy.on_no_rule("pay"), policy.on_no_rule("x")), (pay, other), "{field}");
        }
    }

    #[test]
    fn what_is_wrong_says_what_was_expected() {
        for (field, expected) in [
            ("on_no_rule = \"deny\"", "did you mean \"refuse\"?"),
            ("on_no_rule = true", "or a table of domains"),
            ("on_no_rule = { pay = 1 }", "`pay` is"),
        ] {
            let error = parsed(field).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
