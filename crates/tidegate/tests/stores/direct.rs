//! Calls that find the store idle go over a connection of the runtime that asks. The conformance kit runs all verbs that
//! way over one server.

use std::time::Duration;

use tidegate::store::Store;
use tidegate::{AlgorithmKind, OnStoreError, SharedGate};
use tokio::time::sleep;

use crate::server::{Events, Server, check, gate_with, remaining, rule, settings};

const LIMIT: u64 = 100;

/// Makes a gate whose lone calls go over a connection of this runtime, which is open.
async fn gate(server: &Server, timeout: Duration) -> (SharedGate, Events) {
    let mut settings = settings(&server.url());
    settings.direct = true;
    settings.timeout = timeout;
    let rule = rule(AlgorithmKind::SlidingLog, LIMIT).on_store_error(OnStoreError::Closed);
    let (gate, events) = gate_with(settings, vec![rule]).await;
    open(server, &gate).await;
    (gate, events)
}

/// Asks until the gate has a second connection, over which a script ran.
async fn open(server: &Server, gate: &SharedGate) {
    while scripts(server).len() < 2 {
        assert!(!check(gate, "bob", 1).await.is_degraded());
        sleep(Duration::from_millis(1)).await;
    }
}

/// The ids of the connections whose last command ran a script, in the order in which they were opened.
fn scripts(server: &Server) -> Vec<String> {
    let list: String = server.run(&["CLIENT", "LIST"]);
    let clients = list.lines().filter(|line| line.contains("cmd=eval"));
    let ids = clients.filter_map(|line| line.split(' ').next()?.strip_prefix("id="));
    ids.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_of_the_runtime_that_is_closed_costs_no_request_a_decision() {
    let server = Server::start(&[]);
    let (gate, events) = gate(&server, Duration::from_secs(30)).await;
    for round in 1..=3 {
        let last = scripts(&server).pop().unwrap();
        server.run::<()>(&["CLIENT", "KILL", "ID", &last]);
        assert_eq!(remaining(&gate).await, LIMIT - round);
        open(&server, &gate).await;
    }
    assert_eq!(events.seen(), Vec::<String>::new());
    assert_eq!(gate.counts().degraded(), 0);
}

#[tokio::test]
async fn one_call_without_a_reply_shows_an_outage_and_its_units_come_back() {
    let server = Server::start(&[]);
    let (gate, events) = gate(&server, Duration::from_millis(300)).await;
    server.signal("STOP");
    let answer = check(&gate, "ada", 60).await;
    assert!(answer.is_degraded() && !answer.is_allowed() && !answer.is_overloaded());
    while !events.seen().iter().any(|message| message.starts_with("lost")) {
        sleep(Duration::from_millis(1)).await;
    }
    server.signal("CONT");
    while gate.counts().undone == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    gate.store().fit().await;
    assert!(check(&gate, "ada", LIMIT).await.is_allowed(), "all units are back");
}

#[tokio::test]
async fn a_server_that_was_replaced_is_not_asked_over_the_connection_before() {
    let mut server = Server::start(&[]);
    let (gate, events) = gate(&server, Duration::from_secs(30)).await;
    assert_eq!(remaining(&gate).await, LIMIT - 1);
    server.kill();
    server.start_again(&[]);
    assert_eq!(remaining(&gate).await, LIMIT - 2, "the node carried a unit");
    open(&server, &gate).await;
    assert_eq!(events.seen(), Vec::<String>::new());
}
