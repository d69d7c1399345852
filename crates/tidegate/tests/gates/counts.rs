//! Counts of each rule's decisions by outcome, and of the limiters that a gate keeps for it.

use std::sync::Arc;
use std::thread;

use crate::asks::{HOUR, admits, policy};
use crate::packed::{SteppingClock, TODAY_US};
use tidegate::{
    AlgorithmKind, Descriptor, Gate, KeptOfRule, ManualClock, Mode, OnFull, RuleOutcome, RuleSpec,
    RuleStatistics, Setup, Spec, Usage,
};

fn rule(name: &str, algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    RuleSpec::new(name, Spec::new(algorithm, limit, HOUR)).key(["user"])
}

fn window(name: &str, limit: u64) -> RuleSpec {
    rule(name, AlgorithmKind::FixedWindow, limit)
}

fn gate(rules: impl IntoIterator<Item = RuleSpec>) -> (Gate<ManualClock>, Arc<RuleStatistics>) {
    let counts = Arc::new(RuleStatistics::new());
    let setup = Setup::new(policy(rules)).observer(counts.clone());
    (Gate::with_clock(setup, ManualClock::new()), counts)
}

/// The outcomes of each rule in force that were counted at least once, by the name of the rule.
fn counted(
    gate: &Gate<ManualClock>,
    counts: &RuleStatistics,
) -> Vec<(String, Vec<(RuleOutcome, u64)>)> {
    let policy = gate.policy();
    let of_rule = policy.rules().iter().zip(counts.of(policy.rules()));
    let counted = of_rule.map(|(rule, counts)| {
        let counts = counts.counts();
        let all = RuleOutcome::ALL.map(|outcome| (outcome, counts.decisions(outcome)));
        (rule.name().to_owned(), all.into_iter().filter(|(_, count)| *count > 0).collect())
    });
    counted.collect()
}

#[test]
fn each_rule_counts_its_own_part_in_a_decision() {
    use RuleOutcome::{
        Allowed, Never, Refused, RefusedByOther, Reported, ShadowAllowed, ShadowRefused,
    };
    let (gate, counts) = gate([
        window("tight", 2),
        window("wide", 10),
        window("shadow", 1).mode(Mode::Shadow),
        window("reported", 100).usage(Usage::Reported).when("kind", "report"),
    ]);
    assert!(admits(&gate, "ada", 1) && admits(&gate, "ada", 1) && !admits(&gate, "ada", 1));
    assert!(!admits(&gate, "ada", 3), "it can never fit");
    assert!(
        gate.check(Descriptor::new(&[("kind", "report"), ("user", "bob")]).cost(1)).is_allowed()
    );
    let expected = [
        ("tight", vec![(Allowed, 2), (Refused, 1), (Never, 1), (Reported, 1)]),
        ("wide", vec![(Allowed, 2), (RefusedByOther, 2), (Reported, 1)]),
        ("shadow", vec![(Reported, 1), (ShadowAllowed, 1), (ShadowRefused, 3)]),
        ("reported", vec![(Reported, 1)]),
    ];
    assert_eq!(counted(&gate, &counts), expected.map(|(name, counts)| (name.to_owned(), counts)));
}

#[test]
fn a_rule_keeps_its_counts_through_policies_and_a_removed_one_loses_them() {
    let (gate, counts) = gate([window("stays", 9), window("goes", 9)]);
    let of = |name: &str| {
        let all = counted(&gate, &counts);
        all.into_iter().find(|(rule, _)| rule == name).map(|(_, counts)| counts)
    };
    assert!(admits(&gate, "ada", 1));
    gate.replace(policy([window("new", 9), window("stays", 5)])).unwrap();
    assert_eq!(of("goes"), None);
    assert_eq!(of("new"), Some(Vec::new()));
    assert!(admits(&gate, "ada", 1));
    assert_eq!(of("stays"), Some(vec![(RuleOutcome::Allowed, 2)]));
    assert_eq!(of("new"), Some(vec![(RuleOutcome::Allowed, 1)]));
}

/// For a reader of counters both are what may happen: they go on, or begin at zero.
#[test]
fn a_rule_that_comes_back_goes_on_from_its_counts_or_begins_at_zero() {
    let both = || policy([window("stays", 9), window("goes", 9)]);
    for meanwhile in [None, Some("new")] {
        let (gate, counts) = gate([window("stays", 9), window("goes", 9)]);
        assert!(admits(&gate, "ada", 1));
        let others = meanwhile.map(|name| window(name, 9));
        gate.replace(policy([window("stays", 9)].into_iter().chain(others))).unwrap();
        assert!(admits(&gate, "ada", 1));
        gate.replace(both()).unwrap();
        assert!(admits(&gate, "ada", 1));
        let expected = |goes| {
            [("stays", 3), ("goes", goes)]
                .map(|(name, count)| (name.to_owned(), vec![(RuleOutcome::Allowed, count)]))
        };
        let found = counted(&gate, &counts);
        assert!(found == expected(2) || found == expected(1), "{meanwhile:?}: {found:?}");
    }
}

/// Answers of both policies are counted at the same time as new rules are found.
#[test]
fn no_count_is_lost_while_policies_are_replaced() {
    let (gate, counts) = gate([window("all", 1_000_000)]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| assert!(admits(&gate, "ada", 1))));
        }
        scope.spawn(|| {
            for round in 0..50 {
                let more = (0..round % 3).map(|other| window(&format!("other-{other}"), 1_000_000));
                gate.replace(policy(more.chain([window("all", 1_000_000)]))).unwrap();
            }
        });
    });
    let of_all = counted(&gate, &counts).into_iter().find(|(name, _)| name == "all").unwrap();
    assert_eq!(of_all.1, [(RuleOutcome::Allowed, 2_000)]);
}

#[test]
fn keys_without_space_are_counted_as_overflow() {
    let (gate, counts) = gate([window("few", 9).max_keys(1, OnFull::Share)]);
    assert!(admits(&gate, "ada", 1) && admits(&gate, "bob", 1) && admits(&gate, "cy", 1));
    let policy = gate.policy();
    assert_eq!(counts.of(policy.rules())[0].counts().overflow(), 2);
}

#[test]
fn limiters_in_memory_are_counted_with_their_bytes_and_those_that_were_dropped() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingLog] {
        let clock = ManualClock::new();
        let gate = Gate::with_clock(
            policy([rule("few", algorithm, 9).max_keys(2, OnFull::Share)]),
            clock.clone(),
        );
        let kept = || -> KeptOfRule { gate.counts().rules().next().unwrap().1 };
        assert_eq!((kept().keys, kept().bytes, kept().dropped), (0, 0, 0), "{algorithm:?}");
        assert!(admits(&gate, "ada", 1) && admits(&gate, "bob", 1));
        assert_eq!((kept().keys, kept().dropped), (2, 0), "{algorithm:?}");
        assert!(kept().bytes > 0, "{algorithm:?}");
        clock.advance(2 * HOUR);
        let admitted = (0..9).filter(|key| admits(&gate, &format!("key-{key}"), 1)).count();
        assert_eq!(admitted, 9, "{algorithm:?}");
        assert_eq!((kept().keys, kept().dropped), (2, 2), "{algorithm:?}: the first two");
    }
}

/// A state that moves back with its clock remembers that after any verb, so every step must be counted.
#[test]
fn what_a_refused_request_leaves_in_a_state_is_counted() {
    for refused in [0, 1] {
        let clock = SteppingClock::at(2 * TODAY_US);
        let gate = Gate::with_clock(policy([window("each", 1)]), clock.clone());
        assert!(admits(&gate, "ada", 1));
        let before = gate.counts().rules().next().unwrap().1.bytes;
        clock.set(TODAY_US);
        assert_eq!(admits(&gate, "ada", refused), refused == 0);
        assert!(gate.counts().rules().next().unwrap().1.bytes > before, "cost {refused}");
    }
}
