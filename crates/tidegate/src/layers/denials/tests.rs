//! A denial of the store is repeated until units come back.

mod memory;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::*;
use crate::rules::RuleSpec;
use crate::store::StoreError;
use crate::store::fake::{FakeStore, Fault, ask, asking};

fn layer() -> (Denials<FakeStore>, Arc<AtomicU64>) {
    let store = FakeStore::new(vec![RuleSpec::new("user", "10/h").key(["user"])]);
    let (generation, count) = (Arc::clone(&store.generation), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&count);
    let on_denied = Arc::new(move || {
        counted.fetch_add(1, Relaxed);
    });
    (Denials::new(store, generation, Some(Arc::new(DenialMemory::new())), on_denied), count)
}

/// A layer whose store has just denied 8 units of a limiter with 4.
async fn denied() -> (Denials<FakeStore>, Arc<AtomicU64>) {
    let (layer, count) = layer();
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(layer.step(&[ask(0, "ada", 6)], asking(&layer)).await.unwrap().allowed);
    assert!(!layer.step(&[ask(0, "ada", 8)], asking(&layer)).await.unwrap().allowed);
    layer.inner.steps();
    (layer, count)
}

async fn is_asked(layer: &Denials<FakeStore>, cost: u64) -> bool {
    let _ = layer.step(&[ask(0, "ada", cost)], asking(layer)).await;
    !layer.inner.steps().is_empty()
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_repeated_for_its_cost_and_more_and_for_no_other_key() {
    let (layer, count) = denied().await;
    assert!(layer.decides_now());
    assert_eq!([is_asked(&layer, 8).await, is_asked(&layer, 9).await], [false, false]);
    assert_eq!(count.load(Relaxed), 2);
    assert!(is_asked(&layer, 4).await);
    let _ = layer.step(&[ask(0, "bob", 8)], asking(&layer)).await;
    assert_eq!(layer.inner.steps().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_repeated_without_a_wait_for_the_store() {
    let (layer, _) = denied().await;
    let refused = layer.step_now(&[ask(0, "ada", 8)], asking(&layer));
    assert!(!refused.unwrap().allowed);
    assert!(layer.step_now(&[ask(0, "ada", 4)], asking(&layer)).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_denial_ends_in_fifty_milliseconds() {
    let (layer, _) = denied().await;
    tokio::time::advance(Duration::from_millis(51)).await;
    assert!(!layer.decides_now());
    assert!(is_asked(&layer, 8).await);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_ends_a_denial_even_if_the_store_does_not_reply() {
    for fault in [None, Some(Fault::Fails(StoreError::Timeout))] {
        let (layer, _) = denied().await;
        layer.inner.fault([fault]);
        let settle = StepArgs::settle(&[0], &[], layer.host().deadline());
        let _ = layer.step(&[ask(0, "ada", 6)], settle).await;
        layer.inner.steps();
        assert!(is_asked(&layer, 8).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_ends_a_denial() {
    let (layer, _) = denied().await;
    let reset = StepArgs { verb: Verb::Reset, ..asking(&layer) };
    layer.step(&[ask(0, "ada", 1)], reset).await.unwrap();
    assert!(is_asked(&layer, 8).await);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_in_a_queue_asks_the_store() {
    let (layer, _) = denied().await;
    let queued = StepArgs { is_queued: true, ..asking(&layer) };
    let _ = layer.step(&[ask(0, "ada", 8)], queued).await;
    assert_eq!(layer.inner.steps().len(), 1);
}
