//! Plans: figures that are looked up for each key of a rule.

use std::fmt;
use std::sync::Arc;

use tidegate_core::Rule;

use crate::request::Descriptor;
use crate::rules::{NoSuchRule, Policy};

/// Tells the plan of whom a descriptor is about; `None` for one that has none of its own.
pub(crate) type Lookup = dyn Fn(&Descriptor<'_>) -> Option<Arc<Rule>> + Send + Sync;

/// The rules whose figures are looked up, by their numbers.
#[derive(Default)]
pub(crate) struct Plans(Vec<(usize, Box<Lookup>)>);

impl Plans {
    /// Looks up the figures of a rule from now on, forgets those of before, and returns the number of the rule.
    ///
    /// # Errors
    /// The policy has no such rule.
    pub(crate) fn add(
        &mut self,
        policy: &Policy,
        domain: &str,
        rule: &str,
        plan: Box<Lookup>,
    ) -> Result<usize, NoSuchRule> {
        let (number, _) = policy.named(domain, rule)?;
        self.0.retain(|(other, _)| *other != number);
        self.0.push((number, plan));
        Ok(number)
    }

    /// The plan, under a rule, of whom a descriptor is about.
    pub(crate) fn of(&self, rule: usize, descriptor: &Descriptor<'_>) -> Option<Arc<Rule>> {
        let (_, plan) = self.0.iter().find(|(number, _)| *number == rule)?;
        plan(descriptor)
    }
}

/// The rules only, not what looks up their figures.
impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(rule, _)| rule)).finish()
    }
}
