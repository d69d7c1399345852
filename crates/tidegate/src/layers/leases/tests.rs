//! Units that are taken ahead: spent here, held next to the store, and given back once.

use std::sync::Mutex;
use std::time::Duration;

use tidegate_core::{AlgorithmKind, Settled, Spec};

use super::*;
use crate::rules::{LeaseSpec, RuleSpec};
use crate::store::fake::{FakeStore, Fault, ask, asking, let_tasks_run};
use crate::store::{StoreError, StoreEvent};

const LIMIT: u64 = 1_000_000;

/// A rule with leases, and an exact rule of 10 units.
fn layer() -> Leases<FakeStore> {
    let window = Spec::new(AlgorithmKind::FixedWindow, LIMIT, Duration::from_secs(3_600));
    let leased = RuleSpec::new("leased", window).key(["leased"]);
    let leased = leased.lease(LeaseSpec { max_percent: 10, life: Duration::from_secs(1) });
    let store = FakeStore::new(vec![leased, RuleSpec::new("exact", "10/h").key(["exact"])]);
    let generation = Arc::clone(&store.generation);
    let back: Arc<Mutex<Vec<KeyAsk>>> = Arc::default();
    let on_units_back: OnUnitsBack =
        Arc::new(move |asks: &[KeyAsk]| back.lock().unwrap().extend_from_slice(asks));
    let handles = Handles { on_units_back, report: Arc::new(|_: StoreEvent<'_>| ()) };
    Leases::new(store, &generation, 1, handles)
}

async fn check(layer: &Leases<FakeStore>, asks: &[KeyAsk]) -> StepReply {
    layer.step(asks, asking(layer)).await.unwrap()
}

/// A layer that holds a lease of the first rule.
async fn with_lease() -> Leases<FakeStore> {
    let layer = layer();
    for _ in 0..100 {
        assert!(check(&layer, &[ask(0, "a", 1)]).await.allowed);
        let_tasks_run().await;
        if layer.counts().taken > 0 && layer.covered(&[ask(0, "a", 1)])[0].is_some() {
            layer.inner.steps();
            return layer;
        }
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    panic!("no lease was taken");
}

/// The units in use: the units used in the store, less the units that can still be spent here.
fn used(layer: &Leases<FakeStore>) -> u64 {
    let counts = layer.counts();
    let held = counts.taken - counts.spent - counts.unspent;
    LIMIT - layer.inner.left(&ask(0, "a", 0)) - held
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_lease_covers_does_not_ask_the_store() {
    let layer = with_lease().await;
    let before = used(&layer);
    assert!(check(&layer, &[ask(0, "a", 1)]).await.allowed);
    assert_eq!((layer.inner.steps(), used(&layer)), (vec![], before + 1));
    assert!(layer.step_now(&[ask(0, "a", 1)], asking(&layer)).unwrap().allowed);
    assert!(layer.lasts(&ask(0, "a", 1)).is_some());
}

#[tokio::test(start_paused = true)]
async fn beside_an_exact_rule_only_that_is_asked_and_a_refusal_spends_nothing() {
    let layer = with_lease().await;
    let before = used(&layer);
    let reply = check(&layer, &[ask(0, "a", 1), ask(1, "b", 10)]).await;
    assert!(reply.allowed && reply.replies.iter().all(Option::is_some));
    assert_eq!(layer.inner.steps(), [(Verb::Ask, vec!["b".to_owned()])]);
    assert!(!check(&layer, &[ask(0, "a", 1), ask(1, "b", 1)]).await.allowed);
    assert_eq!(used(&layer), before + 1);
}

#[tokio::test(start_paused = true)]
async fn held_units_are_spent_if_the_request_is_admitted_without_the_store_and_else_released() {
    for is_kept in [false, true] {
        let layer = with_lease().await;
        let before = used(&layer);
        layer.inner.fault([Some(Fault::Fails(StoreError::Away))]);
        let both = [ask(0, "a", 1), ask(1, "b", 1)];
        let gave_up = layer.step(&both, asking(&layer)).await.unwrap_err();
        let covered: Vec<_> = gave_up.covered.iter().map(Option::is_some).collect();
        assert_eq!(covered, [true, false], "the error is not about the leased limiter");
        if is_kept {
            gave_up.late.keep();
        } else {
            drop(gave_up);
        }
        assert_eq!(used(&layer), before + u64::from(is_kept));
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_store_exactly_the_held_units_are_spent_and_then_the_store_is_away() {
    let layer = with_lease().await;
    let counts = layer.counts();
    layer.inner.fault([Some(Fault::Fails(StoreError::Away))]);
    for _ in 0..counts.taken - counts.spent - counts.unspent {
        assert!(check(&layer, &[ask(0, "a", 1)]).await.allowed);
    }
    let gave_up = layer.step(&[ask(0, "a", 1)], asking(&layer)).await.unwrap_err();
    assert!(matches!(gave_up.error, StoreError::Away));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_while_the_store_decides_releases_what_it_held() {
    let layer = with_lease().await;
    let before = used(&layer);
    layer.inner.fault([Some(Fault::Takes(Duration::from_millis(50)))]);
    let both = [ask(0, "a", 1), ask(1, "b", 1)];
    let step = layer.step(&both, asking(&layer));
    assert!(tokio::time::timeout(Duration::from_millis(5), step).await.is_err());
    assert_eq!(used(&layer), before);
}

/// The units that were left before a lease, and the units of the lease, are not both left.
#[tokio::test(start_paused = true)]
async fn a_reply_that_a_lease_has_overtaken_reports_nothing_more_as_left() {
    let asks = [ask(0, "a", 1)];
    for later in [Duration::ZERO, Duration::from_millis(1)] {
        let layer = layer();
        for _ in 0..2 {
            assert!(check(&layer, &asks).await.allowed);
        }
        // The third request of a life begins a lease, whose reply comes first.
        layer.inner.fault([Some(Fault::RepliesAfter(Duration::from_millis(50)))]);
        let overtakes = async {
            tokio::time::advance(later).await;
            let_tasks_run().await;
            assert_eq!(layer.counts().taken, 3);
        };
        let (overtaken, ()) = tokio::join!(check(&layer, &asks), overtakes);
        assert!(overtaken.allowed);
        let by_lease = check(&layer, &asks).await;
        let left = by_lease.replies[0].as_ref().map(|reply| reply.decided.decision.remaining);
        assert_eq!((layer.counts().spent, left), (1, Some(LIMIT - 4)), "{later:?} later");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_spent_of_a_lease_comes_back_once() {
    let layer = with_lease().await;
    let before = used(&layer);
    tokio::time::advance(Duration::from_secs(2)).await;
    let_tasks_run().await;
    let counts = layer.counts();
    assert_eq!(counts.taken, counts.spent + counts.unspent);
    assert_eq!(LIMIT - layer.inner.left(&ask(0, "a", 0)), before);
    assert!(layer.covered(&[ask(0, "a", 1)])[0].is_none());
}

#[tokio::test(start_paused = true)]
async fn a_request_in_a_queue_or_with_an_id_asks_the_store() {
    let layer = with_lease().await;
    let queued = StepArgs { is_queued: true, ..asking(&layer) };
    assert!(layer.step(&[ask(0, "a", 1)], queued).await.unwrap().allowed);
    let id = crate::request::RequestIdentity { id: "id", reserves: false, reservation: None };
    let origin = crate::request::Origin { id: Some(id), source: 0 };
    let with_id = StepArgs { origin, ..asking(&layer) };
    assert!(layer.step_now(&[ask(0, "a", 1)], with_id).is_none());
    assert!(layer.step(&[ask(0, "a", 1)], with_id).await.unwrap().allowed);
    assert_eq!(layer.inner.steps().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_end_gives_back_all_leases_and_takes_no_more() {
    let layer = with_lease().await;
    let before = used(&layer);
    layer.end().await;
    assert_eq!(LIMIT - layer.inner.left(&ask(0, "a", 0)), before);
    for _ in 0..100 {
        assert!(check(&layer, &[ask(0, "a", 1)]).await.allowed);
        let_tasks_run().await;
    }
    assert_eq!(
        (layer.inner.steps().len(), layer.counts().taken),
        (100, layer.counts().spent + layer.counts().unspent)
    );
}

#[tokio::test(start_paused = true)]
async fn units_under_a_lease_that_come_back_in_part_are_told_by_their_number() {
    for (passed_ms, late) in [(0, None), (500, Some(5)), (2_000, Some(8))] {
        let store = FakeStore::new(vec![RuleSpec::new("user", "10/s").key(["user"])]);
        let leased = [Some(Micros::ZERO)];
        let asked = StepArgs { leased: &leased, ..asking(&store) };
        let reply = store.step(&[ask(0, "ada", 8)], asked).await.unwrap();
        let taken = reply.replies[0].as_ref().unwrap().decided.taken;
        tokio::time::advance(Duration::from_millis(passed_ms)).await;

        let settle = StepArgs::settle(&[0], &[], store.host().deadline());
        let settle = StepArgs { leased: &leased, ..settle };
        let taken = [KeyAsk { taken, ..ask(0, "ada", 8) }];
        let settled = store.step(&taken, settle).await.unwrap();
        let settled = settled.replies[0].as_ref().unwrap().decided.settled;
        assert_eq!(settled, late.map_or(Settled::Whole, Settled::Late), "after {passed_ms} ms");
    }
}
