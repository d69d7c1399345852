//! Policies that are replaced while the store does not decide: this node's limiters go on as well.

use super::{log, named, per_day, replace};
use crate::server::{Events, Server, check, gate_among, gate_over, lose, served};
use tidegate::{AlgorithmKind, OnFull, OnStoreError, RuleSpec, SharedGate, Spec};

/// Returns whether a request is admitted without the store, and the units left of its first rule.
async fn away(gate: &SharedGate, user: &str, cost: u64) -> (bool, Option<u64>) {
    let answer = check(gate, user, cost).await;
    assert!(answer.is_degraded() || answer.is_unlimited(), "{answer:?}");
    let left = answer.matched().first().map(|one| one.decision().remaining);
    (answer.is_allowed(), left)
}

async fn lost(rules: Vec<RuleSpec>, taken: u64) -> (Server, SharedGate, Events) {
    let (mut server, gate, events) = served(rules).await;
    assert!(check(&gate, "ada", taken).await.is_allowed());
    lose(&mut server, &gate, &events).await;
    (server, gate, events)
}

#[tokio::test]
async fn what_was_used_stays_used_without_the_store_under_any_policy() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let with = |limit| named("r", algorithm, limit);
        let (_server, gate, _) = lost(vec![with(10)], 6).await;
        replace(&gate, vec![with(30)]);
        assert_eq!(away(&gate, "ada", 4).await, (true, Some(20)), "{algorithm}");
        replace(&gate, vec![]);
        assert_eq!(away(&gate, "ada", 1_000).await, (true, None), "{algorithm}");
        replace(&gate, vec![RuleSpec::new("other", log("r", 100).spec).key(["user"]), with(12)]);
        assert!(!away(&gate, "ada", 3).await.0, "{algorithm}: added back");
        replace(&gate, vec![with(12)]);
        assert_eq!(away(&gate, "ada", 2).await, (true, Some(0)), "{algorithm}");
        gate.amend("default", "r", per_day(algorithm, 15)).unwrap();
        assert_eq!(away(&gate, "ada", 2).await, (true, Some(1)), "{algorithm}: amended");
        assert!(away(&gate, "bob", 12).await.0, "{algorithm}");
    }
}

#[tokio::test]
async fn a_rule_that_is_closed_from_now_on_refuses_and_one_that_was_decides() {
    let (_server, gate, _) = lost(vec![log("r", 10)], 6).await;
    replace(&gate, vec![log("r", 10).on_store_error(OnStoreError::Closed)]);
    let answer = check(&gate, "ada", 1).await;
    assert!(!answer.is_allowed() && answer.is_unavailable());
    gate.amend("default", "r", Spec::unlimited(AlgorithmKind::SlidingLog)).unwrap();
    assert!(check(&gate, "ada", 1).await.is_allowed(), "no store decides an unlimited rule");
    replace(&gate, vec![log("r", 10).on_store_error(OnStoreError::Open)]);
    assert_eq!(away(&gate, "ada", 10).await, (true, None));
    replace(&gate, vec![log("r", 10)]);
    assert_eq!(away(&gate, "ada", 4).await, (true, Some(0)), "earlier usage");
}

/// A denial of the store holds only for the values of its time.
#[tokio::test]
async fn a_denial_does_not_hold_under_other_values_and_holds_under_the_same() {
    let other = || RuleSpec::new("other", log("r", 100).spec).key(["user"]);
    let (mut server, gate, events) = served(vec![log("r", 10)]).await;
    let (elsewhere, _) = gate_over(&server.url(), vec![log("r", 10)]).await;
    assert!(check(&elsewhere, "ada", 10).await.is_allowed());
    assert!(!check(&gate, "ada", 2).await.is_allowed());
    lose(&mut server, &gate, &events).await;
    assert!(!away(&gate, "ada", 2).await.0);
    replace(&gate, vec![other(), log("r", 10)]);
    assert!(!away(&gate, "ada", 2).await.0, "it is unchanged");
    replace(&gate, vec![other(), log("r", 20)]);
    assert!(away(&gate, "ada", 2).await.0);
}

#[tokio::test]
async fn the_limiter_that_keys_without_space_share_is_this_nodes_part_of_the_rule_of_now() {
    let mut server = Server::start(&[]);
    let capped = |limit| log("r", limit).max_keys(1, OnFull::Share);
    let (gate, events) = gate_among(2, &server.url(), vec![capped(10)]).await;
    lose(&mut server, &gate, &events).await;
    // The first user has its own limiter, and all others share one.
    assert!(away(&gate, "lost", 1).await.0);
    assert_eq!(away(&gate, "ada", 2).await, (true, Some(3)), "half of ten");
    replace(&gate, vec![capped(20)]);
    assert_eq!(away(&gate, "bob", 2).await, (true, Some(6)), "half of twenty");
    replace(&gate, vec![]);
    replace(&gate, vec![capped(20)]);
    assert!(!away(&gate, "eve", 7).await.0, "four are used");
}

/// A replaced rule that leaves a node without a share is reported once.
#[tokio::test]
async fn a_limit_that_becomes_smaller_than_the_number_of_nodes_is_warned_of() {
    let server = Server::start(&[]);
    let (gate, events) = gate_among(4, &server.url(), vec![log("r", 8)]).await;
    events.assert_none();
    for limit in [3, 8, 2] {
        replace(&gate, vec![log("r", limit)]);
    }
    assert_eq!(events.seen(), ["no share: r among 4"]);
}
