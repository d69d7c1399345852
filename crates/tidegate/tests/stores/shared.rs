//! One limit for many nodes: what gates over one real server decide together.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::server::{Server, check, gate_over, rule, settings};
use tidegate::{
    AlgorithmKind, Descriptor, Limit, Micros, Mode, OverrideSpec, Policy, Request, RuleSpec,
    SharedGate, SharedReplay, Spec, Timestamp,
};

async fn admitted(gate: Arc<SharedGate>, requests: u64) -> u64 {
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..requests {
        let gate = Arc::clone(&gate);
        asked.spawn(async move {
            let answer = check(&gate, "ada", 1).await;
            assert!(!answer.is_degraded());
            u64::from(answer.is_allowed())
        });
    }
    asked.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_admit_the_limit_together_whatever_the_algorithm() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL {
        let (one, _) = gate_over(&server.url(), vec![rule(*algorithm, 100)]).await;
        let (two, _) = gate_over(&server.url(), vec![rule(*algorithm, 100)]).await;
        let (one, two) = tokio::join!(admitted(one.into(), 300), admitted(two.into(), 300));
        // A queue serves one more than it has places for.
        let most = if *algorithm == AlgorithmKind::LeakyQueue { 101 } else { 100 };
        assert_eq!(one + two, most, "{algorithm}: {one} and {two}");
    }
}

#[tokio::test]
async fn the_verbs_are_those_of_a_gate_in_process() {
    let server = Server::start(&[]);
    let (gate, _) = gate_over(&server.url(), vec![rule(AlgorithmKind::SlidingLog, 10)]).await;
    let descriptors = [Descriptor::new(&[("user", "ada")]).cost(6)];
    let request = Request::new("default", &descriptors);
    let remaining = |answer: &tidegate::Answer<'_>| answer.reported().unwrap().decision().remaining;

    assert_eq!(remaining(&gate.check(&request).await), 4);
    let refused = gate.check(&request).await;
    assert!(!refused.is_allowed() && refused.retry_after().unwrap() > Micros::from_secs(86_000));
    assert_eq!(remaining(&gate.peek(&request).await), 4);
    assert_eq!(remaining(&gate.settle(&request, 2).await.unwrap()), 8);
    assert_eq!(remaining(&gate.refund(&request).await.unwrap()), 10);
    assert!(gate.check(&request).await.is_allowed());
    assert_eq!(gate.reset(&request).await.unwrap(), 1);
    assert_eq!(remaining(&gate.peek(&request).await), 10);
    assert_eq!(server.run::<u64>(&["DBSIZE"]), 0, "nothing is left");
}

#[tokio::test]
async fn several_rules_are_all_or_nothing_and_unlimited_ones_ask_nobody() {
    let server = Server::start(&[]);
    let day = Micros::from_secs(86_400);
    let rules = vec![
        RuleSpec::new("wide", Spec::new(AlgorithmKind::TokenBucket, 10, day)),
        rule(AlgorithmKind::FixedWindow, 3),
        RuleSpec::new("tried", Spec::new(AlgorithmKind::SlidingLog, 1, day)).mode(Mode::Shadow),
        RuleSpec::new("open", Spec::unlimited(AlgorithmKind::TokenBucket)).in_domain("other"),
    ];
    let (gate, _) = gate_over(&server.url(), rules).await;
    let mut told = Vec::new();
    for _ in 0..5 {
        let answer = check(&gate, "ada", 1).await;
        let remaining = answer.matched().into_iter().map(|matched| matched.decision().remaining);
        told.push((answer.is_allowed(), remaining.collect::<Vec<_>>()));
    }
    assert_eq!(
        told,
        [
            (true, vec![9, 2, 0]),
            (true, vec![8, 1, 0]),
            (true, vec![7, 0, 0]),
            (false, vec![7, 0, 0]),
            (false, vec![7, 0, 0]),
        ]
    );
    let descriptors = [Descriptor::new(&[])];
    assert!(gate.check(&Request::new("other", &descriptors)).await.is_unlimited());
}

#[tokio::test]
async fn the_same_limiter_twice_costs_both_and_overrides_hold() {
    let server = Server::start(&[]);
    let mut ann = OverrideSpec::new("user", "ann");
    ann.limit = Some(Limit::Units(50));
    let rules = vec![rule(AlgorithmKind::TokenBucket, 10).with_override(ann)];
    let (gate, _) = gate_over(&server.url(), rules).await;
    for (entries, remaining) in [([("user", "ada")], 1), ([("user", "ann")], 41)] {
        let descriptors = [4, 5].map(|cost| Descriptor::new(&entries).cost(cost));
        let answer = gate.check(&Request::new("default", &descriptors)).await;
        assert_eq!(answer.matched().len(), 1);
        assert_eq!(answer.reported().unwrap().decision().remaining, remaining);
    }
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_told_again() {
    let server = Server::start(&[]);
    let (gate, events) = gate_over(&server.url(), vec![rule(AlgorithmKind::SlidingLog, 3)]).await;
    for remaining in [2, 1, 0] {
        server.run::<()>(&["SCRIPT", "FLUSH"]);
        let answer = check(&gate, "ada", 1).await;
        assert!(answer.is_allowed() && !answer.is_degraded());
        assert_eq!(answer.reported().unwrap().decision().remaining, remaining);
    }
    assert_eq!(events.told(), Vec::<String>::new());
}

#[tokio::test]
async fn a_changed_limit_holds_for_keys_that_exist() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL {
        let (old, _) = gate_over(&server.url(), vec![rule(*algorithm, 10)]).await;
        assert!(check(&old, "ada", 4).await.is_allowed());
        let (new, _) = gate_over(&server.url(), vec![rule(*algorithm, 20)]).await;
        let answer = check(&new, "ada", 1).await;
        let decision = *answer.reported().unwrap().decision();
        assert_eq!(decision.limit - decision.remaining, 5, "{algorithm}: {decision:?}");
    }
}

#[tokio::test]
async fn a_changed_rule_in_shadow_mode_refuses_nothing_at_the_step_that_amends_either() {
    let server = Server::start(&[]);
    let tried = |limit| vec![rule(AlgorithmKind::SlidingLog, limit).mode(Mode::Shadow)];
    let (old, _) = gate_over(&server.url(), tried(10)).await;
    assert!(check(&old, "ada", 4).await.is_allowed());
    let (new, _) = gate_over(&server.url(), tried(4)).await;
    let answer = check(&new, "ada", 1).await;
    assert!(answer.is_allowed() && !answer.matched()[0].decision().is_allowed());
}

#[tokio::test]
async fn a_replay_in_the_store_has_keys_of_its_own_and_leaves_none() {
    let server = Server::start(&[]);
    let policy = || Policy::new(vec![rule(AlgorithmKind::SlidingLog, 2)]).unwrap();
    for _ in 0..2 {
        let mut replay = SharedReplay::new(policy(), settings(&server.url())).unwrap();
        replay.gate().connected().await.unwrap();
        let mut told = Vec::new();
        for at_s in [100, 50_000, 86_499, 86_500] {
            let descriptors = [Descriptor::new(&[("user", "ada")])];
            let request = Request::new("default", &descriptors);
            let at = Timestamp::from_micros(at_s * 1_000_000);
            let answer = replay.decide(&request, at).await.unwrap();
            assert_eq!(answer.at(), at);
            told.push(answer.is_allowed());
        }
        assert_eq!(told, [true, true, false, true]);
        replay.end().await.unwrap();
    }
    let keys: Vec<String> = server.run(&["KEYS", "*"]);
    assert!(keys.iter().all(|key| key.ends_with('?')), "{keys:?}");
}
