//! Gates over one real server: by a socket, of another database, without a runtime, and of a replay.

use crate::server::{Folder, Server, check, gate_over, path, remaining, rule, settings};
use tidegate::{
    AlgorithmKind, Descriptor, Mode, Policy, Request, SharedGate, SharedReplay, StoreSettings,
    Timestamp,
};

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

#[test]
fn a_gate_is_made_outside_of_a_runtime() {
    let policy = || Policy::new(vec![rule(AlgorithmKind::TokenBucket, 1)]).unwrap();
    let settings = || StoreSettings::new("redis://127.0.0.1:1".parse().unwrap());
    SharedGate::new(policy(), settings(), |_| {}).unwrap();
    SharedReplay::new(policy(), settings()).unwrap();
}

#[tokio::test]
async fn a_socket_and_a_database_of_ones_own() {
    let folder = Folder::new();
    let socket = folder.0.join("redis.sock");
    let server = Server::start(&["--unixsocket", &path(&socket)]);
    let url = format!("unix://{}?db=3", path(&socket));
    let (gate, _) = gate_over(&url, vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    assert_eq!(remaining(&gate).await, 9);
    let (other, _) = gate_over(&server.url(), vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    assert_eq!(remaining(&other).await, 9, "another database, another limiter");
    let (same, _) =
        gate_over(&format!("{}/3", server.url()), vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    assert_eq!(remaining(&same).await, 8);
}
