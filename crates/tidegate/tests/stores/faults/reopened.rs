//! Connections that the store, or a middle, closes: they are opened again within the request that finds it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::task::yield_now;

use crate::server::nodes::{Watched, until};
use crate::server::{Server, check, gate_over, remaining, rule, served};
use tidegate::store::Store;
use tidegate::{AlgorithmKind, OnStoreError, RuleSpec};

fn closed(limit: u64) -> Vec<RuleSpec> {
    vec![rule(AlgorithmKind::TokenBucket, limit).on_store_error(OnStoreError::Closed)]
}

/// Closes every connection of clients, as an operator or a restart of a proxy does.
fn close_all(server: &Server) {
    server.run::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
}

/// Asserts that requests after a closed connection are decided by the store, each once, and that no outage
/// is reported.
async fn is_opened_again(url: &str, server: &Server, rounds: u64) {
    let (gate, events) = gate_over(url, closed(100)).await;
    for round in 1..=rounds {
        close_all(server);
        assert_eq!(remaining(&gate).await, 100 - round, "{url}, round {round}");
    }
    assert_eq!(events.seen(), Vec::<String>::new(), "{url}");
    assert_eq!(gate.counts().degraded(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_closed_costs_no_request_a_decision() {
    let server = Server::start(&[]);
    is_opened_again(&server.url(), &server, 20).await;
    let node = Server::start(&["--cluster-enabled", "yes"]);
    node.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until(&node, &["CLUSTER", "INFO"], |message| message.contains("cluster_state:ok"));
    is_opened_again(&node.url().replacen("redis", "redis+cluster", 1), &node, 20).await;
    let watched = tokio::task::block_in_place(Watched::start);
    // Sentinel loses its connections as well, and calls the primary down after many rounds.
    is_opened_again(&watched.url(), &watched.primary, 2).await;
}

#[tokio::test]
async fn a_restart_between_two_requests_is_not_noticed() {
    let (mut server, gate, events) = served(closed(10)).await;
    assert_eq!(remaining(&gate).await, 9);
    server.kill();
    server.start_again(&[]);
    assert_eq!(remaining(&gate).await, 8, "the server kept nothing, and the node knew of a unit");
    events.assert_none();
}

#[tokio::test]
async fn what_was_under_way_over_a_closed_connection_is_not_sent_twice() {
    let (server, gate, _) = served(closed(10)).await;
    assert_eq!(remaining(&gate).await, 9);
    server.run::<()>(&["CLIENT", "PAUSE", "3600000", "WRITE"]);
    let mut first = pin!(check(&gate, "ada", 1));
    while gate.counts().under_way == 0 {
        assert!(poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await);
        yield_now().await;
    }
    // The store may have run it; this node cannot know.
    until(&server, &["CLIENT", "LIST"], |message| message.contains("cmd=eval"));
    close_all(&server);
    assert!(first.await.is_unavailable());
    server.run::<()>(&["CLIENT", "UNPAUSE"]);
    gate.store().fit().await;
    assert_eq!(remaining(&gate).await, 8);
}
