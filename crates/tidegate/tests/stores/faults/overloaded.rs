//! More load than the store decides in time: no limit opens, and the `retry_after` of shed requests differ.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{AlgorithmKind, Answer, Descriptor, OnStoreError, SharedGate};

use tokio::task::{JoinSet, yield_now};

use crate::server::{Server, check, gate_with, rule, settings};

/// Returns the answers to ten requests of `ada` and one look while other requests fill the store's queue, and the
/// answer to the next request.
async fn answers(on_store_error: OnStoreError, limit: u64, verify: impl Fn(usize, &Answer<'_>)) {
    let server = Server::start(&[]);
    let mut narrow = settings(&server.url());
    (narrow.max_in_flight, narrow.nodes) = (1, Some(2));
    let rule = rule(AlgorithmKind::SlidingLog, limit).on_store_error(on_store_error);
    let (gate, events) = gate_with(narrow, vec![rule]).await;
    let gate = Arc::new(gate);
    server.run::<()>(&["CLIENT", "PAUSE", "3600000", "WRITE"]);
    let mut others = JoinSet::new();
    let ask = |others: &mut JoinSet<_>| {
        let gate = Arc::clone(&gate);
        others.spawn(async move { check(&gate, "bob", 0).await.is_degraded() });
    };
    ask(&mut others);
    while gate.counts().under_way == 0 {
        yield_now().await;
    }
    (0..16).for_each(|_| ask(&mut others));
    yield_now().await;
    for number in 0..10 {
        let answer = check(&gate, "ada", 1).await;
        assert!(answer.is_overloaded() && answer.is_degraded(), "{answer:?}");
        verify(number, &answer);
    }
    assert!(look(&gate).await, "a look gets the same");
    server.run::<()>(&["CLIENT", "UNPAUSE"]);
    assert_eq!(others.join_all().await, [false; 17], "those that wait are decided");
    let counts = gate.counts();
    let decided_here = counts.shed + counts.local;
    assert_eq!((decided_here, counts.merged, counts.under_way), (11, 16, 0), "{counts:?}");
    assert!(!check(&gate, "ada", 1).await.is_degraded(), "exact again with the next request");
    let reported = events.seen();
    assert_eq!(reported[0], "overloaded");
    assert!(
        !reported.iter().any(|message| message.starts_with("lost")),
        "load is no outage: {reported:?}"
    );
}

async fn look(gate: &SharedGate) -> bool {
    gate.peek(Descriptor::new(&[("user", "ada")])).await.is_overloaded()
}

#[tokio::test]
async fn load_opens_no_limit() {
    for on_store_error in [OnStoreError::Open, OnStoreError::Local] {
        answers(on_store_error, 7, |number, answer| {
            assert_eq!(answer.is_allowed(), number < 3, "{on_store_error:?}: {answer:?}");
            assert!(!answer.is_unavailable() && !answer.is_unlimited());
        })
        .await;
    }
}

#[tokio::test]
async fn load_that_a_closed_rule_sheds_comes_back_soon_and_not_as_one() {
    let waits = std::sync::Mutex::new(BTreeSet::new());
    answers(OnStoreError::Closed, 7, |_, answer| {
        assert!(!answer.is_allowed() && answer.is_unavailable(), "{answer:?}");
        waits.lock().unwrap().insert(answer.retry_after().unwrap());
    })
    .await;
    let waits = waits.into_inner().unwrap();
    assert_eq!(waits.len(), 10, "each its own: {waits:?}");
    let (first, last) = (*waits.first().unwrap(), *waits.last().unwrap());
    assert!(first >= Duration::from_millis(100) && last < Duration::from_millis(200), "{waits:?}");
}

#[tokio::test]
async fn what_is_under_way_is_counted_by_limiters_and_not_by_calls() {
    let server = Server::start(&[]);
    let mut narrow = settings(&server.url());
    narrow.max_in_flight = 6;
    let rules = ["one", "two", "three"].map(|name| {
        let mut rule = rule(AlgorithmKind::SlidingLog, 7);
        rule.name = name.to_owned();
        rule
    });
    let (gate, _events) = gate_with(narrow, rules.into()).await;
    let gate = Arc::new(gate);
    server.run::<()>(&["CLIENT", "PAUSE", "3600000", "WRITE"]);
    let mut all = JoinSet::new();
    for number in 0..10 {
        let (gate, user) = (Arc::clone(&gate), format!("user-{number}"));
        all.spawn(async move { check(&gate, &user, 1).await.is_degraded() });
    }
    while gate.counts().under_way < 2 {
        yield_now().await;
    }
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(gate.counts().under_way, 2, "each of three limiters");
    }
    server.run::<()>(&["CLIENT", "UNPAUSE"]);
    assert_eq!(all.join_all().await, [false; 10]);
}
