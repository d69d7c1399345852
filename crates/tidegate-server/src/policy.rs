//! The rules of a configuration before they are in force: the built-in example, errors as they are printed, and
//! warnings about settings without effect. `serve`, `check` and a change of the configuration use them alike.

mod mistakes;

use std::fmt;

use tidegate::config::ConfigErrors;
use tidegate::{
    OnExcess, OnNoRule, OnStoreError, Policy, PolicyErrors, PolicyRule, RuleSpec, StoreSettings,
    StoreUrl, config,
};

use crate::failure::Failure;
use tidegate_lab::labels;

/// The text of the built-in rules.
pub(crate) const EXAMPLE: &str = include_str!("../example.toml");

/// Why a configuration cannot be used.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// Errors at places of its text.
    Text(ConfigErrors),
    /// Parts that cannot be together, or cannot be used here.
    Whole(Failure),
}

impl Wrong {
    /// Rules that cannot take the place of others.
    pub(crate) fn of_rules(errors: PolicyErrors) -> Self {
        Self::Whole(Failure::configuration(errors))
    }

    /// One line for each error: its place, the expected text, and a suggestion.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self {
            Self::Text(found) => found.iter().map(mistakes::line).collect(),
            Self::Whole(failure) => vec![failure.message().to_owned()],
        }
    }

    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Text(found) => failure(&found),
            Self::Whole(failure) => failure,
        }
    }
}

/// Displays as on a terminal: a bounded number of errors, with bounded lines.
impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(found) => f.write_str(&mistakes::printed(found)),
            Self::Whole(failure) => f.write_str(failure.message()),
        }
    }
}

/// The errors of a file as the failure of a command: the first of them if there are many.
pub(crate) fn failure(found: &ConfigErrors) -> Failure {
    Failure::configuration(mistakes::printed(found))
}

/// The built-in rules.
///
/// # Errors
/// No error is known, because a test reads the rules.
pub(crate) fn example() -> Result<Policy, Failure> {
    config::parse("the built-in example", EXAMPLE).map_err(Failure::configuration)
}

/// The policy with its limiters in the store at `url`.
pub(crate) fn over(policy: Policy, url: StoreUrl) -> Policy {
    let settings = settings_over(&policy, url);
    policy.with_store(settings)
}

/// The store settings of a policy, with `url` in place of its own.
pub(crate) fn settings_over(policy: &Policy, url: StoreUrl) -> StoreSettings {
    match policy.store().cloned() {
        Some(mut settings) => {
            settings.url = url;
            settings
        }
        None => StoreSettings::new(url),
    }
}

/// The settings of a sound policy that have no effect, or less than they seem to have, each with the way out.
pub(crate) fn warnings(policy: &Policy) -> Vec<String> {
    let mut warnings = Vec::new();
    for rule in policy.rules() {
        if policy.store().is_none() {
            warnings.extend(warnings_without_store(rule.spec()));
        } else {
            warnings.extend(unused_lease(rule.spec()));
        }
        warnings.extend(split_without_store(rule, policy));
        warnings.extend(starred_overrides(rule.spec()));
    }
    warnings.extend(refusals_without_effect(policy));
    warnings
}

/// The warning of units taken ahead that some requests never use.
fn unused_lease(rule: &RuleSpec) -> Option<String> {
    let ahead = match (rule.lease, rule.split) {
        (Some(_), _) => "lease",
        (None, true) => "split",
        (None, false) => return None,
    };
    let (setting, requests) = match (rule.on_excess, rule.dedupe) {
        (OnExcess::Wait { .. }, _) => ("on_excess", "that may wait"),
        (_, Some(_)) => ("dedupe", "with an id"),
        _ => return None,
    };
    Some(format!(
        "`{ahead}` of the rule `{}` has no effect on requests {requests}, which the store decides: expected no `{ahead}` \
         or no `{setting}`, unless other requests use the rule",
        rule.name
    ))
}

/// A warning for each override that seems to match a prefix.
fn starred_overrides(rule: &RuleSpec) -> impl Iterator<Item = String> {
    let entries = rule.overrides.iter().flat_map(|one| &one.entries);
    entries.filter(|(_, value)| value.ends_with('*')).map(|(name, value)| {
        format!(
            "the override {name}={value} of the rule `{}` matches this value alone, because `*` stands for other text only \
             in `when`: expected a whole value, or a rule of its own",
            rule.name
        )
    })
}

/// A warning for each domain in which a rule matches every request, so that none is refused for want of a rule.
fn refusals_without_effect(policy: &Policy) -> Vec<String> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    for rule in policy.rules() {
        let spec = rule.spec();
        let matches_all = spec.when.is_empty() && spec.key.is_empty() && !spec.exact;
        let is_refused = policy.on_no_rule(rule.domain()) == OnNoRule::Refuse;
        if matches_all && is_refused && found.iter().all(|(domain, _)| *domain != rule.domain()) {
            found.push((rule.domain(), rule.name()));
        }
    }
    let warnings = found.iter().map(|(domain, rule)| {
        format!(
            "`on_no_rule = \"refuse\"` refuses no request of the domain `{domain}`, because the rule `{rule}` matches all of \
             them: expected `when` or `key` in each of its rules"
        )
    });
    warnings.collect()
}

/// The settings of a rule that need a store, if there is none.
fn warnings_without_store(rule: &RuleSpec) -> impl Iterator<Item = String> {
    // The default is not written in most files, so it is no mistake.
    let away = (rule.on_store_error != OnStoreError::default()).then(|| {
        let choice = labels::on_store_error(rule.on_store_error);
        (format!("`on_store_error = \"{choice}\"`"), "on_store_error")
    });
    let lease = rule.lease.map(|_| ("`lease`".to_owned(), "lease"));
    away.into_iter().chain(lease).map(|(setting, field)| {
        format!(
            "{setting} of the rule `{}` has no effect, because there is no store: expected `[store]` or --store, or no \
             `{field}`",
            rule.name,
        )
    })
}

/// The error of a rule that is split among the nodes of a store, if there is no store.
fn split_without_store(rule: &PolicyRule, policy: &Policy) -> Option<String> {
    (rule.spec().split && policy.store().is_none()).then(|| {
        format!(
            "`split = true` of the rule `{}` divides its limit among the nodes of a store, and there is none: expected \
             `[store]` or --store, or no `split` and this node's part of the limit",
            rule.name()
        )
    })
}

/// Checks that rules which are split among the nodes of a store have one.
///
/// # Errors
/// The first rule that has none.
pub(crate) fn check_splits(policy: &Policy) -> Result<(), Failure> {
    match policy.rules().iter().find_map(|rule| split_without_store(rule, policy)) {
        Some(mistake) => Err(Failure::configuration(mistake)),
        None => Ok(()),
    }
}

/// The warning about a file of limiters that has no effect.
pub(crate) fn warning_of_snapshot(policy: &Policy) -> Option<String> {
    policy.store().is_some().then(|| {
        "`snapshot` has no effect, because the limiters are in a store: expected no `[store]` and no --store, or no \
         `snapshot`"
            .to_owned()
    })
}

/// The number of rules, in words.
pub(crate) fn count(policy: &Policy) -> String {
    rules(policy.rules().len())
}

/// A number of rules, in words.
pub(crate) fn rules(number: usize) -> String {
    match number {
        1 => "1 rule".to_owned(),
        n => format!("{n} rules"),
    }
}

/// The policies of the page of all fields, which a test of the engine compares with the fields that there are.
#[cfg(test)]
pub(crate) fn by_example() -> Vec<Policy> {
    let page = include_str!("../../../docs/configuration-by-example.md");
    let blocks = page.split("```toml\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.filter_map(|block| config::parse("page", block).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::Mode;

    #[test]
    fn the_example_is_sound_and_shows_an_enforced_and_a_shadow_rule() {
        let policy = example().unwrap();
        let modes: Vec<_> = policy.rules().iter().map(|rule| rule.mode()).collect();
        assert_eq!(modes, [Mode::Enforce, Mode::Enforce, Mode::Shadow]);
        assert_eq!(count(&policy), "3 rules");
    }

    #[test]
    fn what_needs_a_store_is_a_warning_of_each_rule_without_one() {
        let rule = "[[rule]]\nname = \"NAME\"\nalgorithm = \"fixed_window\"\nrate = \"5/1s\"\n";
        let text = [("a", "closed"), ("b", "open"), ("c", "local"), ("d", "lease")].map(
            |(name, choice)| {
                let choice = match choice {
                    "lease" => "lease = \"auto\"\n".to_owned(),
                    choice => format!("on_store_error = \"{choice}\"\n"),
                };
                rule.replace("NAME", name) + &choice
            },
        );
        let text = text.concat();
        let found = warnings(&config::parse("test", &text).unwrap());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("`on_store_error = \"closed\"` of the rule `a`"), "{found:?}");
        assert!(found[1].starts_with("`on_store_error = \"open\"` of the rule `b`"), "{found:?}");
        assert!(found[2].starts_with("`lease` of the rule `d`"), "{found:?}");
        assert!(found[2].ends_with("or no `lease`"), "{found:?}");
        let store = format!("{text}[store]\nurl = \"redis://127.0.0.1\"\n");
        assert!(warnings(&config::parse("test", &store).unwrap()).is_empty());
    }

    #[test]
    fn a_setting_with_less_effect_than_it_seems_to_have_is_a_warning() {
        let store = "[store]\nurl = \"redis://127.0.0.1\"\n";
        let rule = |fields: &str| {
            format!(
                "[[rule]]\nname = \"r\"\nalgorithm = \"fixed_window\"\nrate = \"50/1s\"\n{fields}\n"
            )
        };
        let (refuse, keyed) = ("on_no_rule = \"refuse\"\n", "key = [\"user\"]");
        let with_override = "[[rule.override]]\nmatch = { user = \"pro*\" }\nlimit = 9";
        for (text, expected) in [
            (format!("{refuse}{}", rule("")), Some("refuses no request of the domain `default`")),
            (format!("{refuse}{}", rule(keyed)), None),
            (format!("{refuse}{}", rule("match = \"exact\"")), None),
            (format!("on_no_rule = {{ pay = \"refuse\" }}\n{}", rule("")), None),
            (
                rule(&format!("{keyed}\n{with_override}")),
                Some("the override user=pro* of the rule `r`"),
            ),
            (
                rule("lease = \"auto\"\non_excess = { wait = \"1s\", max_waiters = 9 }") + store,
                Some("requests that may wait"),
            ),
            (
                rule("split = true\ndedupe = \"1m\"") + store,
                Some("no effect on requests with an id"),
            ),
            (rule("lease = \"auto\"") + store, None),
            (rule("dedupe = \"1m\"") + store, None),
        ] {
            let found = warnings(&config::parse("test", &text).unwrap());
            assert_eq!(found.len(), usize::from(expected.is_some()), "{text}{found:?}");
            assert!(expected.is_none_or(|expected| found[0].contains(expected)), "{found:?}");
        }
    }

    #[test]
    fn a_rule_that_is_split_needs_a_store() {
        let rule = "[[rule]]\nname = \"r\"\nalgorithm = \"fixed_window\"\nrate = \"50/1s\"\nsplit = true\n";
        let read = |text: &str| config::parse("test", text).unwrap();
        let failure = format!("{:?}", check_splits(&read(rule)).unwrap_err());
        assert!(failure.contains("expected `[store]` or --store, or no `split`"), "{failure}");
        let store = "[store]\nurl = \"redis://127.0.0.1\"\n";
        check_splits(&read(&format!("{rule}{store}"))).unwrap();
    }
}
