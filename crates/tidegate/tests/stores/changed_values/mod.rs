//! Changes of a rule's values over a store: on one node, on several nodes one after another, and while the store is away.
//! Behaviours of every gate are in `tests/conformance/changed_values`; `changed_values/revisions.rs` of `tests/scripts`
//! covers the order of values over time.

mod amended;
mod away;
mod plans;
mod replaced;
mod revisions;

use std::time::Duration;

use tidegate::{AlgorithmKind, Limit, Policy, RuleSpec, SharedGate, Spec};

use crate::server::{check, rule};

const DAY: Duration = Duration::from_secs(86_400);

/// A rule of `limit` units a day for each user, which also a queue admits immediately.
fn named(name: &str, algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    let mut rule = rule(algorithm, limit);
    rule.spec.capacity = (algorithm == AlgorithmKind::LeakyQueue).then(|| limit - 1);
    name.clone_into(&mut rule.name);
    rule
}

fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    named("", algorithm, limit).spec
}

fn log(name: &str, limit: u64) -> RuleSpec {
    named(name, AlgorithmKind::SlidingLog, limit)
}

fn replace(gate: &SharedGate, rules: Vec<RuleSpec>) {
    gate.replace(Policy::new(rules).unwrap()).unwrap();
}

/// Returns whether a request is admitted, and the limits that decided.
async fn asked(gate: &SharedGate, user: &str, cost: u64) -> (bool, Vec<u64>) {
    let answer = check(gate, user, cost).await;
    assert!(!answer.is_degraded(), "{answer:?}");
    let limit = |limit| match limit {
        Limit::Units(limit) => limit,
        Limit::Unlimited => u64::MAX,
    };
    let by = answer.matched().into_iter().map(|one| limit(one.values().spec().limit));
    (answer.is_allowed(), by.collect())
}
