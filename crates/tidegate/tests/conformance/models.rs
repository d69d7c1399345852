//! Naive models of limiters whose values change: by a changed rule, by plans, and by requests that supply values.

use std::collections::HashMap;
use std::hash::Hash;

use testkit::model::{AlgorithmKind as Kind, Expected, Model, Policy};
use testkit::traffic::{self, Rng};
use tidegate::{AlgorithmKind, Micros, Rule};

use crate::packed::spec_of;
use crate::subjects::{DAY, per_day};

/// Models by the name of their limiter.
pub(crate) struct Models<I>(HashMap<I, Model>);

impl<I> Default for Models<I> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<I: Clone + Eq + Hash> Models<I> {
    /// The model of a limiter after these values took effect.
    pub(crate) fn under(&mut self, at_us: u64, id: &I, values: &Policy) -> &mut Model {
        let model = self.0.entry(id.clone()).or_insert_with(|| Model::new(values.clone()));
        if model.policy() != values {
            model.replace(at_us, values.clone());
        }
        model
    }

    /// A copy of the model under these values, which do not take effect.
    pub(crate) fn seen(&self, at_us: u64, id: &I, values: &Policy) -> Model {
        let mut model = self.0.get(id).cloned().unwrap_or_else(|| Model::new(values.clone()));
        if model.policy() != values {
            model.replace(at_us, values.clone());
        }
        model
    }

    /// The expected look. Supplied values are not in force until a request is admitted under them, so its wait is the
    /// first after which they would admit it. Returns true as well if no wait would do: then they take effect.
    pub(crate) fn tried(
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

    pub(crate) fn get_mut(&mut self, id: &I) -> Option<&mut Model> {
        self.0.get_mut(id)
    }

    /// Returns whether a debt may last past the last representable instant, where models go on.
    pub(crate) fn has_debt_beyond_time(&mut self, at_us: u64) -> bool {
        self.0.values_mut().any(|model| model.peek(at_us, 0).reset_after_us > u64::MAX / 4)
    }

    /// The names that fit.
    pub(crate) fn ids(&self, fits: impl Fn(&I) -> bool) -> Vec<I> {
        self.0.keys().filter(|id| fits(id)).cloned().collect()
    }

    pub(crate) fn forget(&mut self, id: &I) {
        self.0.remove(id);
    }
}

/// Values of a few algorithms, often with the same frame and another limit. Not both buckets: the state of a bucket is
/// exactly a state of the other bucket, where a model begins again with whole units.
pub(crate) fn pool(
    rng: &mut Rng,
    own: Kind,
    algorithms: &[AlgorithmKind],
    has_time: bool,
) -> Vec<Policy> {
    let other = match own {
        Kind::TokenBucket => Kind::LeakyBucket,
        Kind::LeakyBucket => Kind::TokenBucket,
        _ => rng.pick([Kind::TokenBucket, Kind::LeakyBucket]),
    };
    let mut pool = Vec::new();
    for number in 0..rng.between(2, 4) {
        let mut algorithm = own;
        while number > 0 && (algorithm == other || algorithm == own) {
            let any = rng.below(algorithms.len() as u64) as usize;
            algorithm = Kind::named(algorithms[any].name()).unwrap();
        }
        let policy = match has_time {
            // Without units in use, an `initial` would be ambiguous: the limiter may have been dropped.
            true => Policy { initial: None, ..traffic::policy(rng, algorithm) },
            false => by_day(algorithm, rng.between(1, 30)),
        };
        let sibling = nearby(rng, &policy);
        if Rule::new(spec_of(&sibling)).is_ok() {
            pool.push(sibling);
        }
        pool.push(policy);
    }
    pool
}

/// Values under which nothing flows back during a test.
fn by_day(algorithm: Kind, limit: u64) -> Policy {
    let spec = per_day(AlgorithmKind::from_name(algorithm.name()).unwrap(), limit);
    let policy = Policy::new(algorithm, limit, Micros::from(DAY).as_micros());
    Policy { capacity: spec.capacity, ..policy }
}

/// The values with another limit, which sometimes does not fit the window.
pub(crate) fn nearby(rng: &mut Rng, policy: &Policy) -> Policy {
    if rng.chance(40)
        && let Some(values) = with_other_capacity(rng, policy)
    {
        return values;
    }
    let limit = if rng.chance(10) { 0 } else { rng.skewed(2 * policy.limit.max(1)) };
    Policy { limit, ..policy.clone() }
}

/// The values with another capacity, if they have one.
pub(crate) fn with_other_capacity(rng: &mut Rng, policy: &Policy) -> Option<Policy> {
    let capacity = policy.capacity?;
    let capacity = rng.pick([capacity + 1, capacity.saturating_mul(2), capacity.div_ceil(10), 300]);
    let policy = Policy { capacity: Some(capacity), ..policy.clone() };
    Rule::new(spec_of(&policy)).is_ok().then_some(policy)
}
