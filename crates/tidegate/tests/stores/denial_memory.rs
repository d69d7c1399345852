//! Requests that a node denies again without asking the store, and what ends that.

use std::time::Duration;

use tidegate::{AlgorithmKind, Answer, Decision, Descriptor, Request, RuleSpec, SharedGate, Spec};
use tokio::time::Instant;

use crate::server::{LONG, Server, check, gate_over, gate_with, rule, settings};

const LIMIT: u64 = 3;

async fn remembering(server: &Server, rules: Vec<RuleSpec>) -> SharedGate {
    let mut settings = settings(&server.url());
    settings.denial_memory = true;
    gate_with(settings, rules).await.0
}

fn own() -> RuleSpec {
    rule(AlgorithmKind::SlidingLog, LIMIT)
}

fn values(answer: &Answer<'_>) -> Vec<(String, Decision)> {
    let all = answer.matched().into_iter();
    all.map(|one| (one.rule().name().to_owned(), *one.decision())).collect()
}

/// Asks until this gate has denied a request again without the store, and returns that answer.
async fn denied_again<'g>(gate: &'g SharedGate, user: &str) -> Answer<'g> {
    let before = gate.counts().denied_again;
    for _ in 0..10_000 {
        let answer = check(gate, user, 1).await;
        if gate.counts().denied_again > before {
            assert!(!answer.is_allowed() && !answer.is_degraded() && !answer.is_repeated());
            return answer;
        }
    }
    unreachable!("the store was asked 10,000 times")
}

#[tokio::test]
async fn a_denial_is_repeated_without_the_store_until_this_node_gives_units_back() {
    let server = Server::start(&[]);
    let gate = remembering(&server, vec![own()]).await;
    let ada = Request::from(Descriptor::new(&[("user", "ada")]));
    assert!(check(&gate, "ada", LIMIT).await.is_allowed());
    let first = *check(&gate, "ada", 1).await.reported().unwrap().decision();
    let again = *denied_again(&gate, "ada").await.reported().unwrap().decision();
    assert_eq!((again.limit, again.remaining), (first.limit, 0));
    let [first, again] = [first, again].map(|one| one.retry_after().unwrap());
    assert!(again <= first && first - again < LONG, "{first:?} {again:?}");
    // A larger cost is denied as well.
    let before = gate.counts().denied_again;
    while gate.counts().denied_again == before {
        assert!(!check(&gate, "ada", 2).await.is_allowed());
    }
    let began = Instant::now();
    let denied = loop {
        assert!(began.elapsed() < LONG, "the denial memory decides nothing by itself");
        let _ = denied_again(&gate, "ada").await;
        if let Some(denied) = gate.check_unless_waiting(ada) {
            break denied;
        }
    };
    assert!(!denied.is_allowed() && !denied.is_degraded(), "no caller waits for it: {denied:?}");
    drop(gate.refund(&ada).await.unwrap());
    assert!(check(&gate, "ada", 1).await.is_allowed(), "a refund");
    drop(denied_again(&gate, "ada").await);
    drop(gate.settle(&ada, None, &[0]).await.unwrap());
    assert!(check(&gate, "ada", 1).await.is_allowed(), "a settlement");
    drop(denied_again(&gate, "ada").await);
    gate.reset(&ada).await.unwrap();
    assert!(check(&gate, "ada", LIMIT).await.is_allowed(), "a reset");
    drop(denied_again(&gate, "ada").await);
    gate.amend("default", "sliding_log", rule(AlgorithmKind::SlidingLog, LIMIT + 1).spec).unwrap();
    assert!(check(&gate, "ada", 1).await.is_allowed(), "another limit");
    assert!(check(&gate, "bob", 1).await.is_allowed(), "another key");
}

#[tokio::test]
async fn the_other_rules_have_the_values_that_the_store_reported_last() {
    let server = Server::start(&[]);
    let all = Spec::new(AlgorithmKind::SlidingLog, 100, Duration::from_secs(86_400));
    let gate = remembering(&server, vec![own(), RuleSpec::new("all", all)]).await;
    assert!(check(&gate, "ada", LIMIT).await.is_allowed());
    let [(own, denied), (all, other)] = &values(&denied_again(&gate, "ada").await)[..] else {
        unreachable!("both rules are in the answer")
    };
    assert_eq!((own.as_str(), denied.is_allowed()), ("sliding_log", false));
    assert_eq!((all.as_str(), other.is_allowed(), other.remaining), ("all", true, 100 - LIMIT));
}

#[tokio::test]
async fn an_id_asks_the_store_each_time_and_so_does_a_gate_without_a_memory() {
    let server = Server::start(&[]);
    let gate = remembering(&server, vec![own()]).await;
    let (without, _) = gate_over(&server.url(), vec![own()]).await;
    assert!(check(&gate, "ada", LIMIT).await.is_allowed());
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    for _ in 0..50 {
        let request = Request::new("default", &descriptors).with_id("1").unwrap();
        assert!(!gate.check(&request).await.is_allowed());
        assert!(!check(&without, "ada", 1).await.is_allowed());
    }
    assert_eq!((gate.counts().denied_again, without.counts().denied_again), (0, 0));
}
