//! Rules of the models' policies, and decisions in the form of the models; tests of the core use them as well.
#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

use std::time::Duration;
use testkit::model::{self, Expected};
use tidegate_core::{AlgorithmKind, Anchor, Decision, Micros, Spec};

/// The words of a model's policy.
pub fn spec_of(policy: &model::Policy) -> Spec {
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
            // The models' logs of a thousand million units stay small, like most requests.
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

/// A decision in the form of the models.
pub fn expected(decision: &Decision) -> Expected {
    Expected {
        allowed: decision.is_allowed(),
        limit: decision.limit,
        remaining: decision.remaining,
        retry_after_us: decision.retry_after_micros().map(Micros::as_micros),
        reset_after_us: decision.reset_after.as_micros(),
        delay_us: decision.delay_micros().as_micros(),
    }
}
