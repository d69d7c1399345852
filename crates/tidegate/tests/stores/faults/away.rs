//! A slow or unavailable store: each rule decides by itself during the outage, and the store decides exactly
//! afterwards.

use crate::server::{
    Events, Server, check, gate_among, gate_over, gate_with, lose, path, remaining, rule, served,
    settings, unconnected, until_lost,
};
use tidegate::store::Store;
use tidegate::{
    AlgorithmKind, OnStoreError, Policy, Secret, SharedGate, SharedGateError, StoreError,
};

fn token(limit: u64, on_store_error: OnStoreError) -> tidegate::RuleSpec {
    rule(AlgorithmKind::TokenBucket, limit).on_store_error(on_store_error)
}

/// A gate over a server of its own, whose rule is open without it.
async fn open() -> (Server, SharedGate, Events) {
    served(vec![token(10, OnStoreError::Open)]).await
}

#[tokio::test]
async fn a_killed_server_is_one_outage_at_once_and_a_new_one_is_found() {
    let (mut server, gate, events) = open().await;
    assert_eq!(remaining(&gate).await, 9);
    server.kill();
    for _ in 0..50 {
        let answer = check(&gate, "ada", 1).await;
        assert!(answer.is_allowed() && answer.is_degraded() && answer.is_unlimited());
        assert!(events.seen()[0].contains("cannot be reached"), "no request waits for it");
    }
    assert!(gate.counts().degraded() >= 50);
    server.start_again(&[]);
    gate.store().fit().await;
    assert_eq!(remaining(&gate).await, 8, "the server kept nothing, and the node knew of a unit");
    let mut answer = events.seen();
    // A busy machine looks like load.
    answer.retain(|message| !message.starts_with("overload"));
    assert_eq!(answer[1..], ["back"], "{answer:?}");
}

#[tokio::test]
async fn nothing_is_decided_on_a_replica_also_not_on_one_that_can_be_written() {
    for read_only in ["yes", "no"] {
        let server = Server::start(&["--replica-read-only", read_only]);
        let rules = vec![token(10, OnStoreError::Open)];
        let (gate, events) = gate_over(&server.url(), rules.clone()).await;
        assert_eq!(remaining(&gate).await, 9);
        server.run::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
        if read_only == "yes" {
            assert_eq!(until_lost(&gate, &events).await, 1);
            assert!(check(&gate, "ada", 1).await.is_degraded());
        }
        let late = unconnected(settings(&server.url()), rules);
        assert_eq!(late.store().connected().await, Err(StoreError::ReadOnly));
        assert!(check(&late, "ada", 1).await.is_degraded());
        server.run::<()>(&["REPLICAOF", "NO", "ONE"]);
        late.store().fit().await;
        gate.store().fit().await;
        assert_eq!(remaining(&gate).await, 8);
    }
}

#[tokio::test]
async fn a_script_that_does_not_end_keeps_the_store_away_and_no_longer() {
    let server = Server::start(&["--busy-reply-threshold", "1"]);
    let (gate, events) = gate_over(&server.url(), vec![token(100, OnStoreError::Open)]).await;
    let (mut controls, mut hog) = (server.connect(), server.connect());
    let endless = redis::cmd("EVAL").arg("while true do end").arg(0).get_packed_command();
    hog.send_packed_command(&endless).unwrap();
    until_lost(&gate, &events).await;
    redis::cmd("SCRIPT").arg("KILL").exec(&mut controls).unwrap();
    gate.store().fit().await;
    assert_eq!(events.seen().len(), 2, "{:?}", events.seen());
}

#[tokio::test]
async fn a_server_that_still_reads_its_data_is_waited_for() {
    let mut server = Server::start(&["--rdbcompression", "no"]);
    let (gate, _) = gate_over(&server.url(), vec![token(10, OnStoreError::Open)]).await;
    let many = "for i = 1, 2000 do redis.call('SET', 'other' .. i, string.rep('x', 1000)) end";
    server.run::<()>(&["EVAL", many, "0"]);
    assert_eq!(remaining(&gate).await, 9);
    server.run::<()>(&["SAVE"]);
    server.kill();
    server.start_again(&[
        "--key-load-delay",
        "10000",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    let late = unconnected(settings(&server.url()), vec![token(10, OnStoreError::Open)]);
    assert_eq!(late.store().connected().await, Err(StoreError::Loading));
    server.run::<()>(&["CONFIG", "SET", "key-load-delay", "0"]);
    late.store().fit().await;
    assert_eq!(remaining(&late).await, 8, "the saved units count");
}

#[tokio::test]
async fn a_local_rule_goes_on_from_what_this_node_has_admitted() {
    let mut server = Server::start(&[]);
    let rules = vec![token(20, OnStoreError::Local)];
    let (gate, events) = gate_among(2, &server.url(), rules).await;
    for _ in 0..7 {
        assert!(check(&gate, "ada", 1).await.is_allowed());
    }
    lose(&mut server, &gate, &events).await;
    let mut answers = Vec::new();
    for _ in 0..5 {
        let answer = check(&gate, "ada", 1).await;
        assert!(answer.is_degraded() && !answer.is_unavailable());
        answers.push((answer.is_allowed(), answer.reported().unwrap().decision().limit));
    }
    assert_eq!(answers, [(true, 10), (true, 10), (true, 10), (false, 10), (false, 10)]);
    let stranger = check(&gate, "bob", 1).await;
    assert!(stranger.is_allowed());
    let fields = tidegate::headers::of(&stranger);
    assert!(fields.iter().any(|(_, value)| value.ends_with(";q=10;w=86400")), "{fields:?}");
}

#[tokio::test]
async fn a_closed_rule_keeps_a_local_one_from_being_charged() {
    let closed = rule(AlgorithmKind::FixedWindow, 5)
        .when("user", "ada")
        .on_store_error(OnStoreError::Closed);
    let rules = vec![token(3, OnStoreError::Local), closed];
    let (mut server, gate, events) = served(rules).await;
    lose(&mut server, &gate, &events).await;
    for _ in 0..10 {
        let answer = check(&gate, "ada", 1).await;
        assert!(answer.is_unavailable());
        assert_eq!(answer.matched()[0].decision().remaining, 3);
        assert_eq!(answer.reported().unwrap().rule().name(), "fixed_window");
    }
    let free = check(&gate, "ada", 0).await;
    assert!(free.is_allowed() && free.is_degraded(), "a cost of nothing is always allowed");
    let peeked = check(&gate, "bob", 1).await;
    assert_eq!(peeked.reported().unwrap().decision().remaining, 2);
}

#[tokio::test]
async fn who_is_not_let_in_reads_why_and_is_let_in_once_the_password_is_right() {
    let server = Server::start(&[]);
    server.run::<()>(&["ACL", "SETUSER", "tide", "on", ">right", "~t:*", "+@all"]);
    let file = server.folder.0.join("password");
    let begun = || {
        let mut settings = settings(&server.url());
        settings.username = Some("tide".to_owned());
        settings.password = Some(Secret::File(file.clone()));
        settings.key_prefix = "t:".to_owned();
        let policy = Policy::new(vec![token(10, OnStoreError::Open)]).unwrap();
        SharedGate::new(policy, settings, |_| {})
    };
    let missing = begun().unwrap_err();
    assert!(
        matches!(&missing, SharedGateError::Unreadable(StoreError::Unreadable(_))),
        "{missing:?}"
    );
    assert!(missing.to_string().contains(&path(&file)), "{missing}");
    std::fs::write(&file, "wrong\n").unwrap();
    let gate = begun().unwrap();
    assert!(matches!(gate.store().connected().await, Err(StoreError::Denied(_))));
    std::fs::remove_file(&file).unwrap();
    while !matches!(gate.store().connected().await, Err(StoreError::Unreadable(_))) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    std::fs::write(&file, "right\n").unwrap();
    gate.store().fit().await;
    assert_eq!(remaining(&gate).await, 9);
}

#[tokio::test]
async fn an_outage_that_goes_on_for_another_reason_is_reported_again() {
    let server = Server::start(&[]);
    let password = |text: &str| {
        server.run::<()>(&["ACL", "SETUSER", "tide", "reset", "on", text, "~*", "+@all"]);
        server.run::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    };
    password(">right");
    let file = server.folder.0.join("password");
    std::fs::write(&file, "right").unwrap();
    let mut settings = settings(&server.url());
    settings.username = Some("tide".to_owned());
    settings.password = Some(Secret::File(file.clone()));
    let (gate, events) = gate_with(settings, vec![token(10, OnStoreError::Open)]).await;
    password(">other");
    until_lost(&gate, &events).await;
    events
        .until(|message| message.starts_with("still lost: the store does not let this user"))
        .await;
    std::fs::remove_file(&file).unwrap();
    events.until(|message| message.starts_with("still lost: the store cannot be asked")).await;
    std::fs::write(&file, "other").unwrap();
    gate.store().fit().await;
    events.until(|answer| answer == "back").await;
    let answer = events.seen();
    assert_eq!(answer.len(), 4, "each reason once: {answer:?}");
}

#[tokio::test]
async fn a_store_that_evicts_is_reported_once() {
    let server = Server::start(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]);
    let (gate, events) = gate_over(&server.url(), vec![token(10, OnStoreError::Open)]).await;
    events.until(|message| message.contains("allkeys-lru")).await;
    assert_eq!(remaining(&gate).await, 9);
    assert_eq!(events.seen().len(), 1, "{:?}", events.seen());
}

#[tokio::test]
async fn a_key_of_somebody_else_is_that_requests_trouble_alone() {
    let (server, gate, events) = open().await;
    server.run::<()>(&["RPUSH", "tidegate:default:token_bucket:eve", "x"]);
    for _ in 0..20 {
        assert!(check(&gate, "eve", 1).await.is_degraded());
    }
    assert_eq!(remaining(&gate).await, 9);
    let answer = events.seen();
    assert_eq!(answer.len(), 1, "it is no outage, and is reported once: {answer:?}");
    assert!(answer[0].starts_with("undecided: tidegate:default:token_bucket:eve: "), "{answer:?}");
}

#[tokio::test]
async fn a_store_that_takes_no_writes_is_away_until_it_does() {
    let (server, gate, events) = open().await;
    server.run::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert!(check(&gate, "ada", 1).await.is_degraded());
    let answer = events.seen();
    assert!(
        answer.len() == 1 && answer[0].starts_with("lost: the store takes no writes"),
        "{answer:?}"
    );
    server.run::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    gate.store().fit().await;
    assert_eq!(remaining(&gate).await, 9);
}

#[tokio::test]
async fn verbs_for_operators_say_that_the_store_is_away() {
    let (mut server, gate, events) = open().await;
    lose(&mut server, &gate, &events).await;
    let descriptors = [tidegate::Descriptor::new(&[("user", "ada")])];
    let request = tidegate::Request::new("default", &descriptors);
    assert_eq!(gate.reset(&request).await, Err(StoreError::Away));
    assert_eq!(gate.refund(&request).await.map(|_| ()), Err(StoreError::Away));
    assert!(gate.peek(&request).await.is_degraded());
}

#[tokio::test]
async fn settings_that_can_not_be_make_no_gate() {
    let policy = || Policy::new(vec![token(3, OnStoreError::Local)]).unwrap();
    let mut wrong = settings("redis://127.0.0.1:1");
    (wrong.nodes, wrong.key_prefix) = (Some(0), "{x}".to_owned());
    let message = SharedGate::new(policy(), wrong, |_| {}).unwrap_err();
    assert!(matches!(&message, SharedGateError::Settings(all) if all.len() == 2), "{message}");
}
