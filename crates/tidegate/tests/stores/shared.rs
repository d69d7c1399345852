//! One limit for many nodes: decisions of several gates over one real server.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::server::{Server, check, gate_over, rule, settings};
use tidegate::{
    AlgorithmKind, Descriptor, Mode, Policy, Request, SharedGate, SharedReplay, StoreSettings,
    Timestamp,
};

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let server = Server::start(&[]);
    let (gate, events) = gate_over(&server.url(), vec![rule(AlgorithmKind::SlidingLog, 3)]).await;
    for remaining in [2, 1, 0] {
        server.run::<()>(&["SCRIPT", "FLUSH"]);
        let answer = check(&gate, "ada", 1).await;
        assert!(answer.is_allowed() && !answer.is_degraded());
        assert_eq!(answer.reported().unwrap().decision().remaining, remaining);
    }
    assert_eq!(events.seen(), Vec::<String>::new());
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
        let replay = SharedReplay::new(policy(), settings(&server.url())).unwrap();
        replay.gate().store().connected().await.unwrap();
        let mut answers = Vec::new();
        for at_s in [100, 50_000, 86_499, 86_500] {
            let request = Request::from(Descriptor::new(&[("user", "ada")]));
            let at = Timestamp::from_micros(at_s * 1_000_000);
            let answer = replay.decide(&request, at).await.unwrap();
            assert_eq!(answer.at(), at);
            answers.push(answer.is_allowed());
        }
        assert_eq!(answers, [true, true, false, true]);
        replay.end().await.unwrap();
    }
    let keys: Vec<String> = server.run(&["KEYS", "*"]);
    assert!(keys.iter().all(|key| key.ends_with('?')), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_different_keys_go_together_and_each_is_decided_as_though_alone() {
    let server = Server::start(&[]);
    // A queue would admit more, later.
    let all = AlgorithmKind::ALL.iter().filter(|algorithm| !algorithm.is_queue());
    for algorithm in all {
        let (gate, _) = gate_over(&server.url(), vec![rule(*algorithm, 1)]).await;
        let gate = Arc::new(gate);
        for allowed in [true, false] {
            let mut asking = JoinSet::new();
            for user in 0..500 {
                let gate = Arc::clone(&gate);
                asking.spawn(async move {
                    let answer = check(&gate, &user.to_string(), 1).await;
                    assert!(!answer.is_degraded());
                    answer.is_allowed()
                });
            }
            let answers = asking.join_all().await;
            assert!(answers.iter().all(|answer| *answer == allowed), "{algorithm}");
        }
        assert!(gate.counts().merged > 0, "none of them went together");
        assert_eq!(gate.counts().failed, 0);
    }
}

#[test]
fn a_gate_is_made_outside_of_a_runtime() {
    let policy = || Policy::new(vec![rule(AlgorithmKind::TokenBucket, 1)]).unwrap();
    let settings = || StoreSettings::new("redis://127.0.0.1:1".parse().unwrap());
    SharedGate::new(policy(), settings(), |_| {}).unwrap();
    SharedReplay::new(policy(), settings()).unwrap();
}
