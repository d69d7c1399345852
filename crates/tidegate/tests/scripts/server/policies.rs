//! The rules of the models' policies, and the layouts in which a store keeps their states.

use std::time::Duration;

use testkit::model::{self, Policy};
use testkit::traffic::{self, Rng};
use tidegate::{AlgorithmKind, Layout, Rule, RuleErrors, Spec};

use super::words::spec_of;

/// The rule of a sound policy.
pub fn rule_of(policy: &Policy) -> Rule {
    checked(policy).expect("a sound policy")
}

/// The rule of a policy, or what is wrong with it.
pub fn checked(policy: &Policy) -> Result<Rule, RuleErrors> {
    Rule::new(spec_of(policy))
}

/// The rule of a sound policy; a log is kept in this layout.
pub fn laid_out(policy: &Policy, layout: Layout) -> Rule {
    in_layout(*rule_of(policy).spec(), layout)
}

/// The rule of these words; a log is kept in this layout.
pub fn in_layout(mut spec: Spec, layout: Layout) -> Rule {
    spec.layout = (spec.algorithm == AlgorithmKind::SlidingLog).then_some(layout);
    Rule::new(spec).expect("a sound rule")
}

/// Each algorithm with each layout of its states.
pub fn layouts() -> impl Iterator<Item = (model::AlgorithmKind, Layout)> {
    let strings = model::AlgorithmKind::ALL.into_iter().map(|one| (one, Layout::String));
    strings.chain([(model::AlgorithmKind::SlidingLog, Layout::SortedSet)])
}

/// A random policy of small numbers, whose bounds and debts are soon reached.
pub fn small(rng: &mut Rng, algorithm: model::AlgorithmKind) -> Policy {
    let mut policy = traffic::policy(rng, algorithm);
    policy.limit = policy.limit.clamp(1, 1_000);
    policy.capacity = policy.capacity.map(|capacity| capacity.clamp(1, 1_000));
    // To begin with less is to be seen where a state was forgotten.
    policy.initial = None;
    policy.window_us = policy.window_us.min(60_000_000) / 60_000 * 60_000 + 60_000;
    policy.buckets = 6;
    policy.resolution_us = policy.resolution_us.clamp(1, 60_000);
    policy
}

/// A limit of 0 without a window.
pub fn closed() -> Rule {
    let mut spec = Spec::new(AlgorithmKind::FixedWindow, 0, Duration::from_secs(1));
    spec.window = None;
    Rule::new(spec).expect("a sound rule")
}

/// Rules of 10 units in a window, of every algorithm in every layout, by name.
pub fn ten(window: Duration) -> Vec<(String, Rule)> {
    of_each(10, window)
}

/// Rules of so many units in a window, of every algorithm in every layout, by name.
pub fn of_each(limit: u64, window: Duration) -> Vec<(String, Rule)> {
    let rule = |(algorithm, layout): (model::AlgorithmKind, Layout)| {
        let algorithm = AlgorithmKind::from_name(algorithm.name()).expect("the lists are the same");
        let mut spec = Spec::new(algorithm, limit, window);
        spec.capacity = algorithm.is_queue().then_some(limit - 1);
        let name = if layout == Layout::SortedSet { "sorted_set" } else { algorithm.name() };
        (name.to_owned(), in_layout(spec, layout))
    };
    layouts().map(rule).collect()
}
