//! A policy: rules that were checked together, found by domain.

use std::collections::HashMap;

use super::check::check;
use super::error::PolicyErrors;
use super::rule::PolicyRule;
use super::spec::RuleSpec;

/// Rules in the order they were written, found by domain. Never changed once built.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<PolicyRule>,
    by_domain: HashMap<String, Vec<usize>>,
}

impl Policy {
    /// Checks every rule, alone and beside the others.
    ///
    /// # Errors
    /// All that is wrong with any of them.
    pub fn new(specs: Vec<RuleSpec>) -> Result<Self, PolicyErrors> {
        let rules = check(specs)?;
        let mut by_domain: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, rule) in rules.iter().enumerate() {
            by_domain.entry(rule.domain().to_owned()).or_default().push(number);
        }
        Ok(Self { rules, by_domain })
    }

    /// Its rules, in the order they were written.
    #[must_use]
    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    /// The rules of a domain with their numbers, in the order they were written.
    pub(crate) fn in_domain(&self, domain: &str) -> impl Iterator<Item = (usize, &PolicyRule)> {
        let numbers = self.by_domain.get(domain).map_or(&[][..], Vec::as_slice);
        numbers.iter().filter_map(|number| Some((*number, self.rules.get(*number)?)))
    }
}
