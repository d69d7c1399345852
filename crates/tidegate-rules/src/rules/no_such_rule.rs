//! The error for a rule that the policy does not have.

use std::fmt;

use super::rule::PolicyRule;

/// The policy has no rule of the given name.
///
/// ```
/// use tidegate::{Policy, RuleSpec, Setup, SystemClock};
///
/// let policy = Policy::new(vec![RuleSpec::new("per-user", "10/s").key(["user"])])?;
/// let setup = Setup::<SystemClock>::new(policy);
/// let error = setup.plans("default", "per-users", |_| None).unwrap_err();
/// assert!(error.to_string().ends_with("such as (\"default\", \"per-user\")"), "{error}");
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct NoSuchRule {
    domain: String,
    rule: String,
    /// Domain and name of the first few rules, taken from the domain if it has any.
    instead: Vec<(String, String)>,
}

impl NoSuchRule {
    /// The maximum number of rules that the message lists.
    const MOST_LISTED: usize = 8;
}

/// Returns the error, which lists a few of the rules that there are.
pub fn no_such_rule(domain: &str, rule: &str, there_are: &[PolicyRule]) -> NoSuchRule {
    let has_domain = there_are.iter().any(|known| known.domain() == domain);
    let instead = there_are.iter().filter(|known| !has_domain || known.domain() == domain);
    let instead = instead
        .take(NoSuchRule::MOST_LISTED)
        .map(|known| (known.domain().to_owned(), known.name().to_owned()))
        .collect();
    NoSuchRule { domain: domain.to_owned(), rule: rule.to_owned(), instead }
}

impl fmt::Display for NoSuchRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, rule, instead } = self;
        write!(f, "no rule {rule:?} in domain {domain:?}: ")?;
        if instead.is_empty() {
            return f.write_str("the policy has no rules");
        }
        f.write_str("expected the domain and the name of a rule of the policy, such as ")?;
        for (place, (domain, name)) in instead.iter().enumerate() {
            let before = if place == 0 { "" } else { ", " };
            write!(f, "{before}({domain:?}, {name:?})")?;
        }
        Ok(())
    }
}

tidegate_core::debug_as_display!(NoSuchRule);

impl std::error::Error for NoSuchRule {}
