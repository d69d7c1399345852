//! The words of the models' policies.

use std::time::Duration;
use testkit::model;
use tidegate::{AlgorithmKind, Anchor, Spec};

/// The words of a model's policy.
pub(crate) fn spec_of(policy: &model::Policy) -> Spec {
    let algorithm =
        AlgorithmKind::from_name(policy.algorithm.name()).expect("the lists are the same");
    let mut spec = Spec::new(algorithm, policy.limit, Duration::from_micros(policy.window_us));
    match policy.algorithm {
        model::AlgorithmKind::FixedWindow => {
            spec.anchor = policy.anchor_first_request.then_some(Anchor::FirstRequest);
        }
        model::AlgorithmKind::SlidingWindow => {
            (spec.buckets, spec.strict) = (Some(policy.buckets), Some(policy.strict));
        }
        model::AlgorithmKind::SlidingLog => {
            spec.resolution = Some(Duration::from_micros(policy.resolution_us));
            spec.max_memory = Some(1 << 40);
        }
        model::AlgorithmKind::TokenBucket => {
            (spec.capacity, spec.initial) = (policy.capacity, policy.initial);
        }
        model::AlgorithmKind::Concurrency => spec.max_memory = Some(1 << 40),
        algorithm if algorithm.has_capacity() => spec.capacity = policy.capacity,
        _ => {}
    }
    if policy.algorithm != model::AlgorithmKind::Concurrency {
        spec.max_debt = policy.max_debt;
    }
    spec
}
