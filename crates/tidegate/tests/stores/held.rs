//! Charging by outcome over a store: which units are kept, which come back, and from where.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::server::{Server, check, gate_over, rule, until_lost};
use std::time::Duration;
use tidegate::{AlgorithmKind, Descriptor, OnExcess, OnStoreError, Request, RuleSpec, Spec};

const DAY: Duration = Duration::from_secs(86_400);

fn log(name: &str, limit: u64) -> RuleSpec {
    RuleSpec::new(name, Spec::new(AlgorithmKind::SlidingLog, limit, DAY))
}

#[tokio::test]
async fn a_refusal_holds_nothing_and_who_waits_is_held_in_turn() {
    let server = Server::start(&[]);
    // Longer than the day that it takes, by more than the clocks of the store and of this process can differ.
    let wait = OnExcess::Wait { wait: Duration::from_secs(2 * 86_400), max_waiters: 9 };
    let (gate, _) = gate_over(&server.url(), vec![log("all", 1).on_excess(wait)]).await;
    let descriptors = [Descriptor::new(&[])];
    let request = Request::new("default", &descriptors);
    let charge = gate.hold(&request).await.unwrap();
    let refused = gate.hold(&request).await.unwrap_err();
    assert!(refused.retry_after().is_some_and(|wait| wait > Duration::ZERO));
    let hasty = request.max_wait(Duration::ZERO);
    assert!(gate.hold_in_turn(&hasty).await.is_err(), "a limiter is full for a day");
    let released = async {
        while gate.waiting(&request) == 0 {
            tokio::task::yield_now().await;
        }
        charge.release().await
    };
    let (second, released) = tokio::join!(gate.hold_in_turn(&request), released);
    released.unwrap();
    second.unwrap().settle(1).await.unwrap();
    assert_eq!(gate.available(&request).await, 0);
    assert_eq!(gate.available(&Request::new("none", &descriptors)).await, u64::MAX);
}

#[tokio::test]
async fn what_was_admitted_without_the_store_goes_back_to_this_nodes_share() {
    let mut server = Server::start(&[]);
    let spec = rule(AlgorithmKind::SlidingLog, 5);
    let (gate, events) = gate_over(&server.url(), vec![spec]).await;
    assert!(check(&gate, "ada", 1).await.is_allowed());
    server.kill();
    until_lost(&gate, &events).await;
    let descriptors = [Descriptor::new(&[("user", "ada")]).cost(2)];
    let request = Request::new("default", &descriptors);
    let charge = gate.hold(&request).await.unwrap();
    assert!(charge.answer().is_degraded());
    assert_eq!(gate.available(&request).await, 2);
    charge.settle(1).await.unwrap();
    assert_eq!(gate.available(&request).await, 3);
    gate.hold(&request).await.unwrap().release().await.unwrap();
    assert_eq!(gate.available(&request).await, 3);
}

#[tokio::test]
async fn without_the_store_each_rule_decides_by_its_own() {
    for on_store_error in [OnStoreError::Closed, OnStoreError::Local, OnStoreError::Open] {
        let mut server = Server::start(&[]);
        let spec = rule(AlgorithmKind::SlidingLog, 5).on_store_error(on_store_error);
        let (gate, events) = gate_over(&server.url(), vec![spec]).await;
        let descriptors = [Descriptor::new(&[("user", "ada")])];
        let request = Request::new("default", &descriptors);
        let before = gate.hold(&request).await.unwrap();
        server.kill();
        until_lost(&gate, &events).await;
        assert!(before.release().await.is_err(), "taken in the store, which is away");
        let left = match on_store_error {
            OnStoreError::Closed => 0,
            OnStoreError::Local => 4,
            OnStoreError::Open => u64::MAX,
        };
        assert_eq!(gate.available(&request).await, left, "{on_store_error:?}");
        let is_closed = on_store_error == OnStoreError::Closed;
        assert_eq!(gate.admits(&request).await, !is_closed);
        match gate.hold(&request).await {
            Ok(charge) => charge.release().await.unwrap(),
            Err(refused) => assert!(is_closed && refused.is_unavailable()),
        }
    }
}
