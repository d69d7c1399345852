//! Plans: values that are looked up for each key of a rule.

use std::fmt;
use std::sync::Arc;

use tidegate_core::Rule;

use crate::request::Descriptor;
use crate::rules::PolicyRule;
use crate::step::{Lineage, OwnValues, ValuesSource};

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

    /// Returns the values of a rule for a descriptor that supplies none, and their source.
    pub(crate) fn of(
        &self,
        lineage: Lineage,
        rule: &PolicyRule,
        descriptor: &Descriptor<'_>,
    ) -> (ValuesSource, OwnValues) {
        let lookup = self.0.iter().find(|(other, _)| other.is_of_rule(lineage));
        match lookup.map(|(_, plan)| plan(descriptor)) {
            Some(Some(values)) => (ValuesSource::Plan, Some(values)),
            Some(None) => (ValuesSource::NoPlan, None),
            None if rule.spec().limit_from_request => (ValuesSource::NoPlan, None),
            None => (ValuesSource::Rule, None),
        }
    }

    /// Returns whether requests or plans may have values for keys of a rule.
    #[cfg(feature = "redis")]
    pub(crate) fn has_any(&self, lineage: Lineage, rule: &PolicyRule) -> bool {
        rule.spec().limit_from_request || self.0.iter().any(|(other, _)| other.is_of_rule(lineage))
    }
}

/// Shows only the rules; lookups are closures.
impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(rule, _)| rule)).finish()
    }
}
