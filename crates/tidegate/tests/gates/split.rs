//! A limit that is split among a fixed number of nodes: a gate in memory decides by its part.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use tidegate::{AlgorithmKind, Gate, Limit, OverrideSpec, Policy, Rule, RuleSpec, Spec, Split};

fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    Spec::new(algorithm, limit, Duration::from_secs(86_400))
}

fn gate(rule: RuleSpec) -> Gate {
    Gate::new(Policy::new(vec![rule.key(["user"])]).unwrap())
}

fn available(gate: &Gate, user: &str) -> u64 {
    gate.available(&[("user", user)])
}

#[test]
fn all_parts_together_are_never_more_than_the_limit_of_any_algorithm_that_can_be_split() {
    let windows =
        [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow, AlgorithmKind::SlidingCounter];
    let buckets = [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket];
    for algorithm in windows.into_iter().chain(buckets) {
        for (limit, part) in [(100, 5), (119, 5), (20, 1), (19, 0)] {
            let gate = gate(RuleSpec::new("r", per_day(algorithm, limit)).split(Split::Among(20)));
            assert_eq!(available(&gate, "ada"), part, "{algorithm}: {limit} among 20");
            let admitted = (0..limit).filter(|_| gate.check(&[("user", "ada")]).is_allowed());
            assert_eq!(admitted.count() as u64, part, "{algorithm}: {limit} among 20");
        }
    }
}

#[test]
fn the_part_follows_overrides_and_changed_values_and_the_rule_stays_as_it_was_written() {
    let mut vip = OverrideSpec::new("user", "vip");
    vip.limit = Some(Limit::Units(400));
    let rule = RuleSpec::new("r", per_day(AlgorithmKind::FixedWindow, 100)).with_override(vip);
    let gate = gate(rule.split(Split::Among(20)));
    assert_eq!([available(&gate, "ada"), available(&gate, "vip")], [5, 20]);
    assert!(gate.check(&[("user", "ada")]).is_allowed());
    gate.amend("default", "r", per_day(AlgorithmKind::FixedWindow, 200)).unwrap();
    assert_eq!([available(&gate, "ada"), available(&gate, "vip")], [9, 20]);
    gate.replace((*gate.policy()).clone()).unwrap();
    assert_eq!([available(&gate, "ada"), available(&gate, "vip")], [9, 20], "it is divided once");
    let spec = gate.policy().rules()[0].spec().clone();
    assert_eq!((spec.spec.limit, spec.split), (Limit::Units(200), Some(Split::Among(20))));
}

#[test]
fn a_gate_that_knows_no_other_node_has_the_whole_limit() {
    let rule = RuleSpec::new("r", per_day(AlgorithmKind::FixedWindow, 100));
    assert_eq!(available(&gate(rule.split(Split::Live)), "ada"), 100);
}

/// Returns a gate whose rule has so many units a day for each user, among 20 nodes, and the plan `plan` for ada.
fn gate_with_plan(limit: u64, plan: Spec) -> Gate {
    let rule = RuleSpec::new("r", per_day(AlgorithmKind::FixedWindow, limit));
    let plan = Arc::new(Rule::new(plan).unwrap());
    let gate = gate(rule.split(Split::Among(20))).with_plans("default", "r", move |descriptor| {
        (descriptor.value("user") == Some("ada")).then(|| Arc::clone(&plan))
    });
    gate.unwrap()
}

#[test]
fn plans_are_divided_as_the_limit_of_the_rule_is() {
    let algorithms = [AlgorithmKind::FixedWindow, AlgorithmKind::TokenBucket];
    for algorithm in algorithms.into_iter().chain([AlgorithmKind::SlidingLog]) {
        for (limit, part) in [(400, 20), (119, 5), (20, 1), (19, 0)] {
            let gate = gate_with_plan(100, per_day(algorithm, limit));
            let what = format!("{algorithm}: {limit} among 20");
            let peeked = gate.peek(&[("user", "ada")]);
            assert_eq!(peeked.matched()[0].values().spec().limit, Limit::Units(part), "{what}");
            assert_eq!([available(&gate, "ada"), available(&gate, "bob")], [part, 5], "{what}");
            let admitted = (0..limit).filter(|_| gate.check(&[("user", "ada")]).is_allowed());
            assert_eq!(admitted.count() as u64, part, "{what}");
        }
    }
    let gate = gate_with_plan(100, per_day(AlgorithmKind::TokenBucket, 400).burst(60));
    assert_eq!(available(&gate, "ada"), 3);
    let gate = gate_with_plan(100, Spec::unlimited(AlgorithmKind::TokenBucket));
    assert_eq!([available(&gate, "ada"), available(&gate, "bob")], [u64::MAX, 5]);
}

#[test]
fn plans_follow_a_rule_that_is_divided_otherwise() {
    let gate = gate_with_plan(100, per_day(AlgorithmKind::FixedWindow, 400));
    assert_eq!(available(&gate, "ada"), 20);
    gate.amend("default", "r", per_day(AlgorithmKind::FixedWindow, 200)).unwrap();
    assert_eq!([available(&gate, "ada"), available(&gate, "bob")], [20, 10]);
    for (split, parts) in [(Some(Split::Among(4)), [100, 50]), (Some(Split::Live), [400, 200])] {
        let mut spec = gate.policy().rules()[0].spec().clone();
        spec.split = split;
        gate.replace(Policy::new(vec![spec]).unwrap()).unwrap();
        assert_eq!([available(&gate, "ada"), available(&gate, "bob")], parts, "{split:?}");
    }
}
