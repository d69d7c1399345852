//! Plans: figures that are looked up for each key of a rule.

use std::fmt;
use std::sync::Arc;

use tidegate_core::Rule;

use crate::request::Descriptor;
use crate::step::Lineage;

/// Tells the plan of whom a descriptor is about; `None` for one that has none of its own.
pub(crate) type Lookup = dyn Fn(&Descriptor<'_>) -> Option<Arc<Rule>> + Send + Sync;

/// The rules whose figures are looked up, by their lineages.
#[derive(Default)]
pub(crate) struct Plans(Vec<(Lineage, Box<Lookup>)>);

impl Plans {
    /// Looks up the figures of a rule from now on, and forgets the lookup of before.
    pub(crate) fn add(&mut self, rule: Lineage, plan: Box<Lookup>) {
        self.0.retain(|(other, _)| *other != rule);
        self.0.push((rule, plan));
    }

    /// The plan, under a rule, of whom a descriptor is about.
    pub(crate) fn of(&self, rule: Lineage, descriptor: &Descriptor<'_>) -> Option<Arc<Rule>> {
        let (_, plan) = self.0.iter().find(|(lineage, _)| *lineage == rule)?;
        plan(descriptor)
    }
}

/// The rules only, not what looks up their figures.
impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(rule, _)| rule)).finish()
    }
}
