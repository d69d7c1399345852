//! Charging by outcome over a store: what is kept, what comes back, and from where.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::server::{Server, check, gate_over, rule, until_lost};
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Micros, Mode, OnExcess, OnFull, OnStoreError, Request,
    RuleSpec, SharedGate, Spec,
};

const DAY: Micros = Micros::from_secs(86_400);

fn log(name: &str, limit: u64) -> RuleSpec {
    RuleSpec::new(name, Spec::new(AlgorithmKind::SlidingLog, limit, DAY))
}

fn left(answer: &Answer<'_>) -> Vec<u64> {
    answer.matched().iter().map(|matched| matched.decision().remaining).collect()
}

async fn seen(gate: &SharedGate, user: &str) -> Vec<u64> {
    left(&gate.peek(&Request::new("default", &[Descriptor::new(&[("user", user)])])).await)
}

#[tokio::test]
async fn a_charge_is_kept_unless_it_is_released() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        for (number, remaining) in [6, 6, 10, 9, 0].into_iter().enumerate() {
            server.run::<()>(&["FLUSHALL"]);
            let per_day = |limit| {
                let mut spec = Spec::new(algorithm, limit, DAY);
                spec.capacity = (algorithm == AlgorithmKind::LeakyQueue).then_some(limit - 1);
                spec
            };
            let all = RuleSpec::new("all", per_day(10));
            let user = RuleSpec::new("user", per_day(10)).key(["user"]);
            let (gate, _) = gate_over(&server.url(), vec![all, user]).await;
            let descriptors = [Descriptor::new(&[("user", "ada")]).cost(4)];
            let request = Request::new("default", &descriptors);
            let charge = gate.hold(&request).await.unwrap();
            assert_eq!(left(charge.answer()), [6, 6], "taken before the work begins");
            match number {
                0 => drop(charge),
                1 => charge.keep(),
                2 => charge.release().await.unwrap(),
                3 => charge.settle(1).await.unwrap(),
                _ => charge.settle(13).await.unwrap(),
            }
            assert_eq!(seen(&gate, "ada").await, [remaining; 2], "{algorithm}, ending {number}");
        }
    }
}

#[tokio::test]
async fn a_refusal_holds_nothing_and_who_waits_is_held_in_turn() {
    let server = Server::start(&[]);
    let wait = OnExcess::Wait { wait: DAY, max_waiters: 9 };
    let (gate, _) = gate_over(&server.url(), vec![log("all", 1).on_excess(wait)]).await;
    let descriptors = [Descriptor::new(&[])];
    let request = Request::new("default", &descriptors);
    let charge = gate.hold(&request).await.unwrap();
    let refused = gate.hold(&request).await.unwrap_err();
    assert!(refused.retry_after().is_some_and(|wait| wait > Micros::ZERO));
    let hasty = request.max_wait(Micros::ZERO);
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
    assert_eq!(gate.capacity(&request).await, 1);
    assert_eq!(gate.available(&Request::new("none", &descriptors)).await, u64::MAX);
}

#[tokio::test]
async fn what_was_not_taken_is_not_given_back() {
    let server = Server::start(&[]);
    let rules = vec![
        log("trial", 3).mode(Mode::Shadow),
        log("full", 9).key(["user"]).max_keys(1, OnFull::Share),
        log("live", 9),
    ];
    let (gate, _) = gate_over(&server.url(), rules).await;
    assert!(check(&gate, "ada", 2).await.is_allowed());
    let descriptors = [Descriptor::new(&[("user", "bob")]).cost(2)];
    let bob = Request::new("default", &descriptors);
    gate.hold(&bob).await.unwrap().release().await.unwrap();
    let told =
        "the trial would have refused, bob has no limiter of his own, the live one has it back";
    assert_eq!(left(&gate.peek(&bob).await), [1, 7, 7], "{told}");
    gate.hold(&Request::new("none", &[])).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn what_was_repeated_gives_nothing_back() {
    let server = Server::start(&[]);
    let (gate, _) = gate_over(&server.url(), vec![log("all", 5).dedupe(DAY)]).await;
    let descriptors = [Descriptor::new(&[]).cost(2)];
    let request = Request::new("default", &descriptors).with_id("once").unwrap();
    gate.hold(&request).await.unwrap().keep();
    let again = gate.hold(&request).await.unwrap();
    assert!(again.answer().is_repeated());
    again.release().await.unwrap();
    assert_eq!(gate.available(&request).await, 3);
}

/// Whatever is held and released meanwhile, the limit holds for what is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_keep_no_more_than_the_limit() {
    let server = Server::start(&[]);
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let (gate, _) = gate_over(&server.url(), vec![log("all", 40)]).await;
        let gate = Arc::new(gate);
        for task in 0..4 {
            let gate = Arc::clone(&gate);
            tasks.spawn(async move {
                let descriptors = [Descriptor::new(&[])];
                let mut kept = 0;
                for turn in 0..30 {
                    match gate.hold(&Request::new("default", &descriptors)).await {
                        Ok(charge) if (task + turn) % 2 == 0 => charge.release().await.unwrap(),
                        Ok(charge) => {
                            charge.keep();
                            kept += 1;
                        }
                        Err(_) => {}
                    }
                }
                kept
            });
        }
    }
    let kept: u64 = tasks.join_all().await.into_iter().sum();
    let (gate, _) = gate_over(&server.url(), vec![log("all", 40)]).await;
    assert_eq!(seen(&gate, "ada").await, [40 - kept.min(40)]);
    assert!(kept <= 40, "{kept}");
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
        let (left, most) = match on_store_error {
            OnStoreError::Closed => (0, 5),
            OnStoreError::Local => (4, 5),
            OnStoreError::Open => (u64::MAX, u64::MAX),
        };
        assert_eq!(gate.available(&request).await, left, "{on_store_error:?}");
        assert_eq!(gate.capacity(&request).await, most, "{on_store_error:?}");
        let is_closed = on_store_error == OnStoreError::Closed;
        assert_eq!(gate.admits(&request).await, !is_closed);
        match gate.hold(&request).await {
            Ok(charge) => charge.release().await.unwrap(),
            Err(refused) => assert!(is_closed && refused.is_unavailable()),
        }
    }
}
