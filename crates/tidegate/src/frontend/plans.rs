//! Plans: values that are looked up for each key of a rule.

use std::fmt;
use std::sync::Arc;

use tidegate_core::Rule;

use crate::request::Descriptor;
use crate::step::Lineage;

/// Returns the plan for a descriptor; `None` if it has none of its own.
pub(crate) type Lookup = dyn Fn(&Descriptor<'_>) -> Option<Arc<Rule>> + Send + Sync;

/// The rules whose values are looked up, by lineage.
#[derive(Default)]
pub(crate) struct Plans(Vec<(Lineage, Box<Lookup>)>);

impl Plans {
    /// Sets the lookup of a rule, in place of its previous one.
    pub(crate) fn add(&mut self, rule: Lineage, plan: Box<Lookup>) {
        self.0.retain(|(other, _)| !other.is_of_rule(rule));
        self.0.push((rule, plan));
    }

    /// Gives the rules other lineages.
    pub(crate) fn relabel(&mut self, other: impl Fn(Lineage) -> Lineage) {
        self.0.iter_mut().for_each(|(rule, _)| *rule = other(*rule));
    }

    /// Returns the plan of a rule for a descriptor.
    pub(crate) fn of(&self, rule: Lineage, descriptor: &Descriptor<'_>) -> Option<Arc<Rule>> {
        let (_, plan) = self.0.iter().find(|(other, _)| other.is_of_rule(rule))?;
        plan(descriptor)
    }
}

/// Shows only the rules; lookups are closures.
impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(rule, _)| rule)).finish()
    }
}
