//! Shares over a real store: nodes join, leave, end without a word and lose the store, and never pass a limit.

use std::time::Duration;

use tidegate::{AlgorithmKind, Descriptor, OnStoreError, Policy, Request, RuleSpec};
use tokio::time::Instant;

use super::{Ahead, held, node, take_all, until, until_leased};
use crate::server::{LONG, Server, check, gate_with, lose, rule, settings};

const LIMIT: u64 = 3_000;

/// A rule of so many units a day, which nodes share.
fn split(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    Ahead::Shares.of(rule(algorithm, limit))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_joins_gets_what_exceeds_the_shares_of_the_others_at_once() {
    let server = Server::start(&[]);
    let rule = split(AlgorithmKind::FixedWindow, 1_000_000);
    let first = node(&server.url(), None, vec![rule.clone()]).await;
    until(|| first.counts().nodes == 1).await;
    let (mut others, began) = (Vec::new(), Instant::now());
    loop {
        // A share of another key for each try: one may be due at the same moment as another node joins.
        let user = format!("user {}", others.len());
        let before = first.counts();
        let _ = until_leased(&first, &user).await;
        let parts = first.counts().nodes + 1;
        let of_user = first.counts().leased - before.leased;
        let unspent = of_user - (first.counts().leased_spent - before.leased_spent);
        let returned = first.counts().leased_returned;
        others.push(node(&server.url(), None, vec![rule.clone()]).await);
        until(|| first.counts().nodes == parts).await;
        until(|| first.counts().leased_returned > returned).await;
        let given_back = first.counts().leased_returned - returned;
        if given_back == unspent - unspent * parts / (parts + 1) {
            break;
        }
        until(|| held(&first) == 0).await;
        assert!(began.elapsed() < LONG, "{given_back} of {unspent} were given back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_that_leaves_did_not_spend_is_had_by_the_others() {
    for algorithm in [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow] {
        let server = Server::start(&[]);
        let gates = Ahead::Shares.nodes(&server, 3, &split(algorithm, LIMIT)).await;
        let mut admitted = until_leased(&gates[0], "ada").await.1;
        gates[0].leave().await.unwrap();
        assert_eq!(held(&gates[0]), 0);
        admitted += take_all(&gates[1..], LIMIT - admitted).await;
        assert_eq!(admitted, LIMIT, "{algorithm}");
        until(|| gates[1].counts().nodes == 2).await;
    }
}

/// Nodes get a changed limit one after the other; units held by nodes with the old limit come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_changes_at_one_node_first_costs_the_others_nothing() {
    use AlgorithmKind::{FixedWindow, SlidingCounter, SlidingLog, SlidingWindow};
    for algorithm in [FixedWindow, SlidingWindow, SlidingCounter, SlidingLog] {
        let server = Server::start(&[]);
        let gates = Ahead::Shares.nodes(&server, 2, &split(algorithm, LIMIT)).await;
        let before = until_leased(&gates[0], "ada").await.1;
        let newer = Policy::new(vec![split(algorithm, LIMIT - 1)]).unwrap();
        gates[1].replace(newer).unwrap();
        assert!(check(&gates[1], "ada", 1).await.is_allowed());
        gates[0].leave().await.unwrap();
        assert_eq!((held(&gates[0]), gates[0].counts().leased_changed), (0, 0), "{algorithm}");
        gates[1].leave().await.unwrap();
        let left = gates[1]
            .peek(&Request::new("default", &[Descriptor::new(&[("user", "ada")])]))
            .await
            .remaining();
        assert_eq!(left, Some(LIMIT - 1 - before - 1), "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_is_renewed_without_requests_and_no_longer_once_nobody_asks() {
    let server = Server::start(&[]);
    let gate = node(&server.url(), None, vec![split(AlgorithmKind::FixedWindow, LIMIT)]).await;
    until(|| gate.counts().nodes == 1).await;
    let admitted = until_leased(&gate, "ada").await.1;
    until(|| held(&gate) > 0).await;
    let (leased, spent) = (gate.counts().leased, gate.counts().leased_spent);
    until(|| gate.counts().leased > leased).await;
    let began = Instant::now();
    let counts = loop {
        until(|| held(&gate) == 0).await;
        let before = gate.counts().leased;
        let answer = gate.peek(("default", &[("user", "ada")])).await;
        let (left, counts) = (answer.reported().unwrap().decision().remaining, gate.counts());
        // The next share may have been asked for in between.
        if left == LIMIT - admitted && counts.leased == before {
            break counts;
        }
        assert!(began.elapsed() < LONG, "{left} are left of {}: {counts:?}", LIMIT - admitted);
    };
    assert_eq!(counts.leased_spent, spent);
    assert_eq!(counts.leased, counts.leased_spent + counts.leased_returned);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_store_a_share_is_spent_and_local_is_not_added_to_it() {
    let began = Instant::now();
    while !is_share_spent_without_the_store().await {
        assert!(began.elapsed() < LONG, "each share ends before the store is found lost");
    }
}

/// Returns whether a share lasted until the store was found lost.
async fn is_share_spent_without_the_store() -> bool {
    let mut server = Server::start(&[]);
    let mut settings = settings(&server.url());
    (settings.timeout, settings.nodes) = (Duration::from_millis(50), Some(2));
    let own = split(AlgorithmKind::FixedWindow, LIMIT).on_store_error(OnStoreError::Local);
    let (gate, events) = gate_with(settings, vec![own]).await;
    let mut admitted = until_leased(&gate, "ada").await.1;
    lose(&mut server, &gate, &events).await;
    let before = held(&gate);
    let (large, one) = (check(&gate, "ada", before + 1).await, check(&gate, "ada", 1).await);
    if held(&gate) == 0 {
        return false;
    }
    assert!(large.is_degraded() && !large.is_allowed(), "nothing on top of {before}: {large:?}");
    assert!(one.is_allowed() && !one.is_degraded(), "a unit of the share: {one:?}");
    admitted += 1;
    let began = Instant::now();
    loop {
        let before = held(&gate);
        let answer = check(&gate, "ada", 1).await;
        if !answer.is_allowed() {
            assert!(answer.is_degraded());
            if held(&gate) == 0 && admitted >= LIMIT / 2 {
                break;
            }
        } else if answer.is_degraded() {
            // A share may end while a request is on its way, but not the other way round.
            assert_eq!(held(&gate), 0, "{before} could be spent");
        }
        admitted += u64::from(answer.is_allowed());
        assert!(began.elapsed() < LONG, "{admitted} were admitted, {before} are held");
    }
    assert!(admitted <= LIMIT / 2 + 1, "{admitted}, and this node's share is {}", LIMIT / 2);
    true
}
