//! Requests that the store does not decide: this node's share decides, and knows the store's earlier admissions.

use tidegate_rules::shared::Share;

use super::*;
use crate::rules::{OnStoreError, RuleSpec};
use crate::store::StoreError;
use crate::store::fake::{FakeStore, Fault, ask, asking, let_tasks_run};

fn layer(on_store_error: OnStoreError) -> Fallback<FakeStore> {
    let rules = vec![RuleSpec::new("user", "10/h").key(["user"]).on_store_error(on_store_error)];
    let store = FakeStore::new(rules.clone());
    let policy = crate::rules::Policy::new(rules).unwrap();
    let local = Local::new(policy, Share::of(Some(2)), store.host().clone());
    let generation = local.memory.newest().without_tables();
    Fallback::new(store, generation, Arc::new(local))
}

fn ada(cost: u64) -> [KeyAsk; 1] {
    [ask(0, "ada", cost)]
}

async fn check(layer: &Fallback<FakeStore>, cost: u64) -> StepReply {
    layer.step(&ada(cost), asking(layer)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn without_the_store_a_node_admits_its_share_less_what_the_store_admitted() {
    let layer = layer(OnStoreError::Local);
    assert!(check(&layer, 2).await.allowed);
    layer.inner.fault(std::iter::repeat_n(Some(Fault::Fails(StoreError::Away)), 3));
    let admitted = check(&layer, 3).await;
    assert_eq!(
        (admitted.allowed, admitted.standing.lack()),
        (true, Some(crate::step::Lack::Unavailable))
    );
    assert!(!check(&layer, 1).await.allowed, "the share of two nodes is 5");
    let peek = StepArgs::peek(layer.host().deadline());
    assert!(!layer.step(&ada(1), peek).await.unwrap().allowed);
    assert_eq!(layer.inner.left(&ada(0)[0]), 8);
}

#[tokio::test(start_paused = true)]
async fn an_admission_of_more_than_the_share_leaves_nothing_of_it() {
    for costs in [[2, 4], [1, 9]] {
        let layer = layer(OnStoreError::Local);
        for cost in costs {
            assert!(check(&layer, cost).await.allowed);
        }
        layer.inner.fault([Some(Fault::Fails(StoreError::Away))]);
        assert!(!check(&layer, 1).await.allowed, "{costs:?} of a share of 5");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_rule_refuses_and_takes_nothing() {
    let layer = layer(OnStoreError::Closed);
    layer.inner.fault([Some(Fault::Fails(StoreError::Away))]);
    let refused = check(&layer, 1).await;
    assert!(!refused.allowed && matches!(refused.standing, Standing::Unavailable(_)));
    assert!(check(&layer, 10).await.allowed);
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_is_kept_for_a_request_that_is_admitted_and_given_back_for_one_that_is_refused()
 {
    for (on_store_error, left) in [(OnStoreError::Local, 6), (OnStoreError::Closed, 10)] {
        let layer = layer(on_store_error);
        layer.inner.fault([Some(Fault::IsLate)]);
        let reply = check(&layer, 4).await;
        let_tasks_run().await;
        assert_eq!((reply.allowed, layer.inner.left(&ada(0)[0])), (left == 6, left));
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_of_a_request_in_turn_decides_the_request_without_the_store() {
    let layer = layer(OnStoreError::Local);
    layer.inner.fault(std::iter::repeat_n(Some(Fault::Fails(StoreError::Away)), 6));
    let look = StepArgs { or_ask: true, ..StepArgs::peek(layer.host().deadline()) };
    let mut admitted = 0;
    while layer.step(&ada(1), look).await.unwrap().allowed {
        admitted += 1;
    }
    assert_eq!(admitted, 5);
}

#[tokio::test(start_paused = true)]
async fn what_was_admitted_without_the_store_is_settled_in_this_process() {
    let layer = layer(OnStoreError::Local);
    layer.inner.fault([Some(Fault::Fails(StoreError::Away))]);
    let admitted = check(&layer, 5).await;
    layer.inner.steps();
    let taken = admitted.replies[0].as_ref().unwrap().decided.taken;
    let settle = StepArgs::settle(&[1], &[], layer.host().deadline());
    let settle = StepArgs { lack: admitted.standing.lack(), ..settle };
    let taken = [KeyAsk { taken, ..ask(0, "ada", 5) }];
    let settled = layer.step(&taken, settle).await.unwrap();
    assert_eq!((layer.inner.steps().len(), settled.standing.lack()), (0, admitted.standing.lack()));
    layer.inner.fault([Some(Fault::Fails(StoreError::Away))]);
    assert!(check(&layer, 4).await.allowed, "4 of the share of 5 came back");
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_the_store_does_not_answer_is_an_error() {
    let layer = layer(OnStoreError::Local);
    layer.inner.fault([Some(Fault::Fails(StoreError::Timeout))]);
    let settle = StepArgs::settle(&[0], &[], layer.host().deadline());
    let gave_up = layer.step(&ada(1), settle).await.unwrap_err();
    assert_eq!(gave_up.error, StoreError::Timeout);
}
