//! No interval of length W admits more than the bound that the rule reports.

use std::collections::HashMap;

use crate::greedy::{arrivals, departures, greedy, most_within};
use crate::{STEPS, common, for_many_of, for_many_policies};
use testkit::model::{AlgorithmKind, Policy};

const RULES: u64 = 400;

#[test]
fn no_interval_of_a_window_admits_more_than_the_bound() {
    for_many_policies(101, RULES, |rng, policy| {
        let admitted = greedy(rng, &policy, STEPS);
        let largest = admitted.iter().map(|one| one.cost).max().unwrap_or(0);
        let events = match policy.algorithm {
            AlgorithmKind::LeakyQueue => departures(&admitted),
            _ => arrivals(&admitted),
        };
        let most = most_within(&events, policy.window_us);
        let bound = u128::from(common::limiter(&policy).bound(largest));
        assert!(most <= bound, "{most} of {bound}: {policy:?}");
    });
}

/// The bounds of the definitions, computed independently of the algorithms.
#[test]
fn the_bound_of_a_rule_is_the_one_of_its_definition() {
    for_many_policies(102, RULES, |rng, policy| {
        let Policy { limit, algorithm, .. } = policy;
        let largest = rng.between(1, policy.decision_limit().max(1));
        let by_definition = match algorithm {
            _ if limit == 0 => 0,
            AlgorithmKind::SlidingLog | AlgorithmKind::Concurrency => limit,
            AlgorithmKind::SlidingWindow if policy.strict => limit,
            AlgorithmKind::FixedWindow if policy.anchor_first_request => 2 * limit - 1,
            AlgorithmKind::FixedWindow | AlgorithmKind::SlidingWindow => 2 * limit,
            AlgorithmKind::SlidingCounter => 2 * limit - 1,
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => policy.capacity() + limit,
            AlgorithmKind::LeakyQueue => limit + largest - 1,
        };
        assert_eq!(common::limiter(&policy).bound(largest), by_definition, "{policy:?}");
    });
}

#[test]
fn an_aligned_window_holds_no_more_than_the_limit() {
    for_many_of(AlgorithmKind::FixedWindow, 103, RULES, &mut |rng, mut policy| {
        policy.anchor_first_request = false;
        let mut windows: HashMap<u64, u64> = HashMap::new();
        for one in greedy(rng, &policy, STEPS) {
            *windows.entry(one.at_us / policy.window_us).or_default() += one.cost;
        }
        assert!(windows.values().all(|units| *units <= policy.limit), "{policy:?}");
    });
}

/// Windows follow one another; each begins at the first unit after the last window ended.
#[test]
fn a_window_that_begins_at_its_first_unit_holds_no_more_than_the_limit() {
    for_many_of(AlgorithmKind::FixedWindow, 104, RULES, &mut |rng, mut policy| {
        policy.anchor_first_request = true;
        let (mut ends_us, mut units) = (0, 0);
        for one in greedy(rng, &policy, STEPS).into_iter().filter(|one| one.cost > 0) {
            if one.at_us >= ends_us {
                (ends_us, units) = (one.at_us + policy.window_us, 0);
            }
            units += one.cost;
            assert!(units <= policy.limit, "{policy:?}");
        }
    });
}

#[test]
fn a_window_less_one_bucket_holds_no_more_than_the_limit() {
    for_many_of(AlgorithmKind::SlidingWindow, 105, RULES, &mut |rng, policy| {
        let shorter_us = policy.window_us - policy.window_us / policy.buckets;
        if shorter_us > 0 {
            let admitted = arrivals(&greedy(rng, &policy, STEPS));
            let most = most_within(&admitted, shorter_us);
            assert!(most <= u128::from(policy.limit), "{most}: {policy:?}");
        }
    });
}

/// capacity + N is the bound for W; over any length, a bucket gives its capacity and the tokens
/// that flow in.
#[test]
fn a_bucket_gives_no_more_than_its_capacity_and_the_rate_over_any_length_of_time() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        for_many_of(algorithm, 106, RULES, &mut |rng, policy| {
            let admitted = arrivals(&greedy(rng, &policy, STEPS));
            let lengths_us = [1, 1_000, policy.window_us / 3, 7 * policy.window_us];
            for length_us in lengths_us {
                let flow = u128::from(policy.limit) * u128::from(length_us);
                let flow = flow.div_ceil(u128::from(policy.window_us));
                let most = most_within(&admitted, length_us.max(1));
                assert!(most <= u128::from(policy.capacity()) + flow, "{length_us}: {policy:?}");
            }
        });
    }
}
