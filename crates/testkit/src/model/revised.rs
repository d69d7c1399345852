//! One limiter under two sets of values: the values of the newest revision that has taken a unit decide, for every
//! node.

use super::{AlgorithmKind, Expected, Model, Policy, expected};

/// One limiter that nodes with different values use.
#[derive(Clone, Debug)]
pub struct Revised {
    model: Model,
    /// The revision in force; none before the first unit.
    revision: Option<u64>,
    /// The number of times that other values took effect.
    changes: usize,
}

impl Revised {
    /// A limiter that was never used.
    pub fn new(policy: &Policy) -> Self {
        Self { model: Model::new(policy.clone()), revision: None, changes: 0 }
    }

    /// The values in force.
    pub fn policy(&self) -> &Policy {
        self.model.policy()
    }

    /// The number of times that other values took effect.
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// A request of `cost` units, 1 or more, to a node whose values are `policy`, of `revision`.
    ///
    /// Values that are not newer than those in force do not decide. Newer values do, for the used units as they are;
    /// or, if that refuses, as though they had been in force since the last unit: everything then counts as taken at
    /// that time, eased as by any change. They take effect with the units they admit.
    pub fn step(&mut self, at_us: u64, revision: u64, policy: &Policy, cost: u64) -> Expected {
        let in_force = self.revision.is_some_and(|known| known >= revision);
        if self.revision.is_none() {
            self.model = Model::new(policy.clone());
        }
        if in_force || self.policy() == policy {
            let answer = self.model.step(at_us, cost);
            self.revision = self.revision.max(answer.allowed.then_some(revision));
            return answer;
        }
        let ways = [self.amended(at_us, policy), self.since_the_last_unit(at_us, policy)];
        // On copies, because a way that refuses changes nothing.
        for mut way in ways.clone() {
            let answer = way.step(at_us, cost);
            if answer.allowed {
                (self.model, self.revision) = (way, Some(revision));
                self.changes += 1;
                return answer;
            }
        }
        // Both refuse: the shorter wait and the larger rest of the two are reported.
        let [now, since] = ways.map(|mut way| way.peek(at_us, cost));
        let retry_after_us = since.retry_after_us.map(|most| {
            let admits = |wait| self.amended(at_us + wait, policy).peek(at_us + wait, cost).allowed;
            least(most, admits)
        });
        Expected { retry_after_us, remaining: now.remaining.max(since.remaining), ..now }
    }

    fn amended(&self, at_us: u64, policy: &Policy) -> Model {
        let mut model = self.model.clone();
        model.amend(at_us, policy.clone());
        model
    }

    /// Permits end when they would have, whichever values decide.
    fn since_the_last_unit(&self, at_us: u64, policy: &Policy) -> Model {
        if self.policy().holds_permits() && policy.holds_permits() {
            return self.amended(at_us, policy);
        }
        let mut model = Model::new(policy.clone());
        if let Some(last) = self.model.last {
            let used = self.model.all_used(last);
            let old = self.policy();
            // A debt is owed under any rule, and is not eased.
            let debt = match old.algorithm {
                AlgorithmKind::SlidingCounter => self.model.debt(last),
                algorithm if algorithm.has_capacity() => self.model.debt(last),
                _ => expected::value(used - i128::from(old.decision_limit())),
            };
            model.start_fresh(last, used);
            model.ease(last, debt);
        }
        model
    }
}

/// The shortest wait after which a request is admitted, and stays so; `most` if none below it will do.
fn least(most: u64, admits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low) / 2;
        if admits(middle) { high = middle } else { low = middle + 1 }
    }
    high
}
