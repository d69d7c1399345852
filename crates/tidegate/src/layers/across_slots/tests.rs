//! Requests over two slots of a store that fails between them: in the end all units are taken, or none.

use std::time::Duration;

use super::*;
use crate::rules::RuleSpec;
use crate::store::fake::{FakeStore, Fault, ask, asking, let_tasks_run};

/// Of a user 10 units, of all 20: the first slot is asked first.
fn layer() -> AcrossSlots<FakeStore> {
    let rule = |name: &str, spec: &str| RuleSpec::new(name, spec).key([name]).across_slots();
    let store = FakeStore::with_slots(vec![rule("user", "10/h"), rule("all", "20/h")]);
    let generation = Arc::clone(&store.generation);
    AcrossSlots::new(store, generation)
}

fn both(cost: u64) -> [KeyAsk; 2] {
    [ask(0, "ada", cost), ask(1, "all", cost)]
}

fn left(layer: &AcrossSlots<FakeStore>) -> [u64; 2] {
    both(0).map(|ask| layer.inner.left(&ask))
}

#[tokio::test(start_paused = true)]
async fn an_admitted_request_takes_from_both_slots() {
    let layer = layer();
    let reply = layer.step(&both(4), asking(&layer)).await.unwrap();
    assert!(reply.allowed && reply.replies.iter().all(Option::is_some));
    assert_eq!(left(&layer), [6, 16]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_in_the_second_slot_gives_the_units_of_the_first_back() {
    let layer = layer();
    assert!(layer.step(&[ask(1, "all", 15)], asking(&layer)).await.unwrap().allowed);
    let reply = layer.step(&both(8), asking(&layer)).await.unwrap();
    assert!(!reply.allowed);
    assert_eq!(left(&layer), [10, 5]);
    let remaining =
        |place: usize| reply.replies[place].as_ref().unwrap().decided.decision.remaining;
    assert_eq!([remaining(0), remaining(1)], [10, 5], "the answer has both, after the giving back");
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_asked_after_a_refusal_is_only_looked_at() {
    let layer = layer();
    assert!(layer.step(&[ask(0, "ada", 9)], asking(&layer)).await.unwrap().allowed);
    layer.inner.steps();
    assert!(!layer.step(&both(4), asking(&layer)).await.unwrap().allowed);
    let verbs: Vec<_> = layer.inner.steps().into_iter().map(|(verb, _)| verb).collect();
    assert_eq!((verbs, left(&layer)), (vec![Verb::Ask, Verb::Peek], [1, 20]));
}

/// Each failure of the second slot with its error, and the units left if the request is admitted without the store.
#[tokio::test(start_paused = true)]
async fn units_are_kept_or_given_back_as_the_request_is_decided_without_the_second_slot() {
    let fails = (Fault::Fails(StoreError::Away), StoreError::Away, [6, 20]);
    let is_late = (Fault::IsLate, StoreError::Timeout, [6, 16]);
    for (fault, error, kept) in [fails, is_late] {
        for is_kept in [false, true] {
            let layer = layer();
            layer.inner.fault([None, Some(fault.clone())]);
            let gave_up = layer.step(&both(4), asking(&layer)).await.unwrap_err();
            assert_eq!(gave_up.error, error);
            if is_kept {
                gave_up.late.keep();
            } else {
                drop(gave_up);
            }
            let_tasks_run().await;
            assert_eq!(left(&layer), if is_kept { kept } else { [10, 20] }, "{fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_between_two_slots_leaves_nothing_taken() {
    let layer = layer();
    layer.inner.fault([None, Some(Fault::Takes(Duration::from_secs(1)))]);
    let asked = both(4);
    let step = layer.step(&asked, asking(&layer));
    assert!(tokio::time::timeout(Duration::from_millis(10), step).await.is_err());
    let_tasks_run().await;
    assert_eq!(left(&layer), [10, 20]);
}

#[tokio::test(start_paused = true)]
async fn rules_that_do_not_allow_several_slots_refuse_and_take_nothing() {
    let rule = |name: &str| RuleSpec::new(name, "10/h").key([name]);
    let store = FakeStore::with_slots(vec![rule("user"), rule("all")]);
    let generation = Arc::clone(&store.generation);
    let layer = AcrossSlots::new(store, generation);
    let gave_up = layer.step(&both(4), asking(&layer)).await.unwrap_err();
    assert_eq!((gave_up.error, left(&layer)), (StoreError::CrossSlot, [10, 10]));
}
