//! Bans over a store: counted in each process, and applied before the store is asked.

use crate::server::{Server, check, gate_of, gate_over, lose, rule, settings, setup};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Answer, Ban, Descriptor, OnStoreError, Request, RuleSpec, Setup, SharedGate,
    Spec,
};

const DAY: Duration = Duration::from_secs(86_400);
/// Longer than any `retry_after` of the limiters here.
const WEEK: Duration = Duration::from_secs(7 * 86_400);

fn ban(refusals: u64) -> Ban {
    Ban::new(refusals, DAY, WEEK).unwrap()
}

fn log(limit: u64) -> RuleSpec {
    rule(AlgorithmKind::SlidingLog, limit)
}

fn banned(refusals: u64, rules: Vec<RuleSpec>) -> Setup {
    setup(rules).ban("default", "sliding_log", ban(refusals)).unwrap()
}

async fn banning(server: &Server, refusals: u64, rules: Vec<RuleSpec>) -> SharedGate {
    gate_of(settings(&server.url()), banned(refusals, rules)).await.0
}

fn is_banned(answer: &Answer<'_>) -> bool {
    !answer.is_allowed() && answer.retry_after().is_some_and(|wait| wait > DAY)
}

#[tokio::test]
async fn a_banned_key_is_denied_and_the_store_is_not_asked() {
    let server = Server::start(&[]);
    let all = RuleSpec::new("all", Spec::new(AlgorithmKind::SlidingLog, 100, DAY));
    let gate = banning(&server, 2, vec![log(1), all]).await;
    let other = banning(&server, 2, vec![log(1)]).await;
    for _ in 0..3 {
        assert!(!is_banned(&check(&gate, "ada", 1).await));
    }
    server.run::<()>(&["CONFIG", "RESETSTAT"]);
    let request = Request::from(Descriptor::new(&[("user", "ada")]));
    let denied = gate.check(&request).await;
    assert!(is_banned(&denied) && !denied.is_degraded());
    let answers: Vec<_> = denied.matched().iter().map(|one| one.rule().name()).collect();
    assert_eq!(answers, ["sliding_log"], "only the store knows the state of the others");
    assert!(is_banned(&gate.peek(&request).await) && is_banned(&gate.acquire(&request).await));
    assert!(gate.hold(&request).await.is_err() && check(&gate, "ada", 5).await.is_never());
    let asked: String = server.run(&["INFO", "commandstats"]);
    assert!(!asked.contains("evalsha"), "{asked}");
    let unbanned = check(&other, "ada", 1).await;
    assert!(!unbanned.is_allowed() && !is_banned(&unbanned), "for refusals that it gave itself");
}

#[tokio::test]
async fn a_ban_holds_while_the_store_is_away_and_none_begins() {
    for on_store_error in [OnStoreError::Closed, OnStoreError::Local, OnStoreError::Open] {
        let mut server = Server::start(&[]);
        let banned = banned(2, vec![log(1).on_store_error(on_store_error)]);
        let (gate, events) = gate_of(settings(&server.url()), banned).await;
        for _ in 0..3 {
            _ = check(&gate, "ada", 1).await;
        }
        lose(&mut server, &gate, &events).await;
        let banned = check(&gate, "ada", 1).await;
        assert!(is_banned(&banned) && !banned.is_unavailable(), "{on_store_error:?}");
        for _ in 0..9 {
            assert!(check(&gate, "bob", 1).await.is_degraded());
        }
        let other = check(&gate, "bob", 1).await;
        assert!(other.is_degraded() && !is_banned(&other), "{on_store_error:?}");
        assert_eq!(other.is_allowed(), on_store_error == OnStoreError::Open);
    }
}

#[tokio::test]
async fn a_banned_request_with_an_id_gets_the_answer_of_any_node_and_else_its_ban() {
    let mut server = Server::start(&[]);
    let rules = || vec![log(1).dedupe(DAY)];
    let gate = banning(&server, 2, rules()).await;
    let (other, _) = gate_over(&server.url(), rules()).await;
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let [admitted, new] =
        ["a", "b"].map(|id| Request::new("default", &descriptors).with_id(id).unwrap());
    assert!(other.check(&admitted).await.is_allowed());
    for _ in 0..2 {
        assert!(!is_banned(&check(&gate, "ada", 1).await));
    }
    assert!(is_banned(&check(&gate, "ada", 1).await));
    for _ in 0..2 {
        let repeated = gate.check(&admitted).await;
        assert!(repeated.is_allowed() && repeated.is_repeated());
        assert!(is_banned(&gate.check(&new).await) && is_banned(&gate.peek(&new).await));
    }
    server.kill();
    let degraded = gate.counts().degraded();
    for _ in 0..3 {
        let banned = gate.check(&new).await;
        assert!(is_banned(&banned) && !banned.is_degraded());
    }
    assert_eq!(gate.counts().degraded(), degraded, "a ban needs no store");
}
