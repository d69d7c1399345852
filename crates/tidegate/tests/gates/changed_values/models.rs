//! Naive models of limiters whose values come with each request.

use std::collections::HashMap;
use std::hash::Hash;

use testkit::model::{Expected, Model, Policy};

/// Models by the name of their limiter.
pub(super) struct Models<I>(HashMap<I, Model>);

impl<I> Default for Models<I> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<I: Clone + Eq + Hash> Models<I> {
    /// The model of a limiter after these values took effect.
    pub(super) fn under(&mut self, at_us: u64, id: &I, values: &Policy) -> &mut Model {
        let model = self.0.entry(id.clone()).or_insert_with(|| Model::new(values.clone()));
        if model.policy() != values {
            model.replace(at_us, values.clone());
        }
        model
    }

    /// A copy of the model under these values, which do not take effect.
    pub(super) fn seen(&self, at_us: u64, id: &I, values: &Policy) -> Model {
        let mut model = self.0.get(id).cloned().unwrap_or_else(|| Model::new(values.clone()));
        if model.policy() != values {
            model.replace(at_us, values.clone());
        }
        model
    }

    /// The expected look. Supplied values are not in force until a request is admitted under them, so its wait is the
    /// first after which they would admit it. Returns true as well if no wait would do: then they take effect.
    pub(super) fn tried(
        &self,
        at_us: u64,
        id: &I,
        values: &Policy,
        cost: u64,
        supplied: bool,
    ) -> (Expected, bool) {
        let seen = self.seen(at_us, id, values).peek(at_us, cost);
        let old = self.0.get(id).filter(|old| supplied && old.policy() != values);
        let Some(old) = old.filter(|_| !seen.allowed && seen.retry_after_us.is_some()) else {
            return (seen, false);
        };
        let gone_us = old.clone().gone_us(at_us);
        let admitted = |wait_us: u64| {
            let (mut old, then_us) = (old.clone(), at_us.saturating_add(wait_us));
            old.replace(then_us, values.clone());
            old.peek(then_us, cost).allowed
        };
        if !admitted(gone_us) {
            return (seen, true);
        }
        let (mut low, mut wait_us) = (0, gone_us);
        while low < wait_us {
            let middle = low + (wait_us - low) / 2;
            if admitted(middle) { wait_us = middle } else { low = middle + 1 }
        }
        let reset_after_us = gone_us.max(wait_us);
        (Expected { retry_after_us: Some(wait_us), reset_after_us, ..seen }, false)
    }

    /// Returns whether the model of this limiter is under other values.
    pub(super) fn is_under_others(&self, id: &I, values: &Policy) -> bool {
        self.0.get(id).is_some_and(|model| model.policy() != values)
    }

    pub(super) fn get_mut(&mut self, id: &I) -> Option<&mut Model> {
        self.0.get_mut(id)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Model> {
        self.0.values_mut()
    }

    pub(super) fn forget(&mut self, id: &I) {
        self.0.remove(id);
    }
}
