//! A store that is full, `maxmemory` with `noeviction`, under each word of `on_store_error`.

use crate::server::{Server, check, gate_over, rule};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, OnStoreError, Request, RuleSpec, SharedGate, Spec,
};

fn of_user(word: OnStoreError, limit: u64) -> RuleSpec {
    rule(AlgorithmKind::TokenBucket, limit).on_store_error(word)
}

/// A rule without a key, of `limit` units a day.
fn of_all(word: OnStoreError, limit: u64) -> RuleSpec {
    let spec = Spec::new(AlgorithmKind::FixedWindow, limit, Duration::from_secs(86_400));
    RuleSpec::new("all", spec).on_store_error(word)
}

fn fill(server: &Server) {
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
}

fn empty(server: &Server) {
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
}

/// Asserts that a request was decided by the store, and returns what is left of the only limit.
fn left(answer: &Answer<'_>) -> u64 {
    assert!(!answer.is_degraded() && !answer.is_overflow(), "{answer:?}");
    answer.matched()[0].decision().remaining
}

fn is_admitted_unlimited(answer: &Answer<'_>) -> bool {
    answer.is_allowed() && answer.is_degraded() && !answer.is_overloaded()
}

async fn peek<'g>(gate: &'g SharedGate, user: &str) -> Answer<'g> {
    let entries = [("user", user)];
    gate.peek(&Request::new("default", &[Descriptor::new(&entries)])).await
}

#[tokio::test]
async fn open_admits_a_key_that_has_no_limiter_and_a_limiter_that_is_there_decides() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let (gate, events) = gate_over(&server.url(), vec![of_user(OnStoreError::Open, 3)]).await;
    assert_eq!(left(&check(&gate, "ada", 1).await), 2);
    fill(&server);
    for round in 1..=5 {
        let answer = check(&gate, "bob", 1).await;
        assert!(is_admitted_unlimited(&answer) && answer.is_unlimited(), "{answer:?}");
        assert_eq!(gate.counts().degraded(), round);
    }
    assert_eq!(left(&peek(&gate, "bob").await), 3, "a look needs no memory");
    let reported = events.seen();
    assert!(reported.len() == 1 && reported[0].contains("no memory left"), "{reported:?}");
    let (late, _) = gate_over(&server.url(), vec![of_user(OnStoreError::Open, 3)]).await;
    assert_eq!(left(&check(&late, "ada", 2).await), 0, "a node that starts now is exact as well");
    let refused = check(&gate, "ada", 1).await;
    assert!(!refused.is_allowed() && !refused.is_degraded(), "{refused:?}");
    empty(&server);
    assert_eq!(
        left(&check(&gate, "bob", 1).await),
        2,
        "requests admitted without it are not counted"
    );
}

#[tokio::test]
async fn a_rule_whose_limiter_is_there_is_charged_and_refuses_next_to_an_open_rule() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let rules = vec![of_all(OnStoreError::Local, 3), of_user(OnStoreError::Open, 10)];
    let (gate, _) = gate_over(&server.url(), rules).await;
    assert_eq!(left(&check(&gate, "ada", 1).await), 2);
    fill(&server);
    let answer = check(&gate, "bob", 1).await;
    assert!(is_admitted_unlimited(&answer), "{answer:?}");
    assert_eq!(answer.matched()[0].decision().remaining, 1, "the common limit is exact");
    assert!(is_admitted_unlimited(&check(&gate, "eve", 1).await));
    let refused = check(&gate, "bob", 1).await;
    assert!(!refused.is_allowed(), "{refused:?}");
    assert_eq!(refused.reported().unwrap().rule().name(), "all");
}

#[tokio::test]
async fn next_to_a_rule_that_refuses_new_keys_an_open_rule_admits_nothing() {
    for word in [OnStoreError::Local, OnStoreError::Closed] {
        let server = Server::start(&["--maxmemory-policy", "noeviction"]);
        let mut other = of_user(word, 10);
        other.name = "other".to_owned();
        let rules = vec![of_all(OnStoreError::Open, 9), other, of_user(OnStoreError::Open, 10)];
        let (gate, _) = gate_over(&server.url(), rules).await;
        assert_eq!(left(&check(&gate, "ada", 1).await), 8);
        fill(&server);
        let refused = check(&gate, "bob", 1).await;
        assert!(!refused.is_allowed() && refused.is_overflow(), "{refused:?}");
        assert!(refused.retry_after().unwrap() > Duration::ZERO, "denied, and not `at once`");
        empty(&server);
        assert_eq!(left(&check(&gate, "bob", 1).await), 7, "the refused request took nothing");
    }
}
