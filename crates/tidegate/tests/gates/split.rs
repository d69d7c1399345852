//! A limit that is split among a fixed number of nodes: a gate in memory decides by its part.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use tidegate::{AlgorithmKind, Gate, Limit, OverrideSpec, Policy, RuleSpec, Spec, Split};

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
