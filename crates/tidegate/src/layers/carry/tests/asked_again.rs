//! Questions whose replies come after another request began to carry: which are asked again, and which stand.

use super::*;
use crate::step::AskKind;
use crate::store::fake::let_tasks_run;

const MS: Duration = Duration::from_millis(1);

/// Lets the reply to a request come 10 ms late, while the store loses data and `others` happen.
async fn late(
    store: &FakeStore,
    layer: &Carry<FakeStore>,
    asks: &[KeyAsk],
    loses: impl FnOnce(&FakeStore),
    others: impl Future<Output = ()>,
) -> usize {
    sleep(3 * MS).await;
    store.fault([Some(Fault::RepliesAfter(10 * MS))]);
    let rest = async {
        sleep(MS).await;
        loses(store);
        sleep(MS).await;
        others.await;
    };
    tokio::join!(takes(layer, asks), rest).0.len()
}

#[tokio::test(start_paused = true)]
async fn a_limiter_that_got_all_units_back_still_tells_late_replies() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        for loss in LOSSES {
            let (store, layer) = &node();
            let taken = takes(layer, &[ask(rule, "ada", 2)]).await;
            let copy = store.copy();
            let loses = |store: &FakeStore| loss.happens_to(store, copy);
            let settles = gives_back(layer, &taken);
            assert_eq!(late(store, layer, &[ask(rule, "ada", 3)], loses, settles).await, 1);
            looks(layer, rule).await;
            assert_eq!(used(store, rule), 3, "{algorithm}, {loss:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_limiter_takes_no_unit_of_another_twice() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        for asks_both in [false, true] {
            let (store, layer) = &node();
            let both = [ask(rule, "ada", 1), ask(rule, "bob", 1)];
            takes(layer, &both).await;
            let asks = [ask(rule, "bob", 2), ask(rule, "ada", 2)];
            let asks = &asks[..1 + usize::from(asks_both)];
            let others = async { drop(takes(layer, &both).await) };
            late(store, layer, asks, |store| evict(store, rule, "ada"), others).await;
            let ada = if asks_both { 4 } else { 2 };
            assert_eq!(used(store, rule), ada, "{algorithm}, both: {asks_both}");
            // A slot of a queue does not come back after a later slot was taken.
            let bob = if asks_both && algorithm.is_queue() { 6 } else { 4 };
            assert_eq!(used_of(store, rule, "bob"), bob, "{algorithm}, both: {asks_both}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_carried_without_a_reply_hides_no_late_reply() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        for is_carried_again in [false, true] {
            let (store, layer) = &node();
            takes(layer, &[ask(rule, "ada", 5)]).await;
            let flush = |store: &FakeStore| DataLoss::Flushed.happens_to(store, store.copy());
            let carries = async {
                store.fault([None, Some(Fault::IsLate)]);
                assert!(layer.step(&[ask(rule, "ada", 1)], asking(layer)).await.is_err());
                if is_carried_again {
                    sleep(MS).await;
                    looks(layer, rule).await;
                }
            };
            late(store, layer, &[ask(rule, "ada", 2)], flush, carries).await;
            looks(layer, rule).await;
            assert_eq!(used(store, rule), 7, "{algorithm}, again: {is_carried_again}");
        }
    }
}

/// It is not said that nothing was done.
#[tokio::test(start_paused = true)]
async fn a_reply_whose_turn_does_not_come_is_not_an_overload() {
    for settles in [false, true] {
        let (store, layer) = &node();
        let taken = takes(layer, &[ask(0, "ada", 2)]).await;
        store.fault([Some(Fault::RepliesAfter(30 * MS)), None, Some(Fault::Takes(90 * MS))]);
        let carries = async {
            sleep(20 * MS).await;
            DataLoss::FailedOver.happens_to(store, store.copy());
            looks(layer, 0).await;
        };
        let asked = async {
            if settles {
                let settle = StepArgs { actual: &[0], ..asking(layer).settling() };
                return layer.step(&taken, settle).await;
            }
            layer.step(&[ask(0, "ada", 4)], asking(layer)).await
        };
        let (reply, ()) = tokio::join!(asked, carries);
        match reply {
            Ok(reply) => assert!(settles && reply.allowed),
            Err(gave_up) => assert!(!settles && gave_up.error == StoreError::Timeout),
        }
    }
}

/// A lease that the store has granted then is given back.
#[tokio::test(start_paused = true)]
async fn a_lease_whose_turn_does_not_come_is_late() {
    let (store, layer) = &node();
    takes(layer, &[ask(0, "ada", 2)]).await;
    store.fault([Some(Fault::RepliesAfter(30 * MS)), None, Some(Fault::Takes(90 * MS))]);
    let carries = async {
        sleep(20 * MS).await;
        DataLoss::FailedOver.happens_to(store, store.copy());
        looks(layer, 0).await;
    };
    let is_told = AtomicBool::new(false);
    let life = Micros::from_millis(1_000);
    let wanted = Wanted { ticket: 0, oldest: 0, units: 4, life, earlier: Micros::ZERO };
    let on_late = || is_told.store(true, Relaxed);
    let lease = LeaseAsk { wanted: &wanted, node: 1, on_late: &on_late, known: &KnownUse::Nothing };
    let of = ask(0, "ada", 4);
    let (reply, ()) = tokio::join!(layer.lease(&of, lease), carries);
    assert!(is_told.load(Relaxed) && !reply.is_in_time);
    assert!(matches!(reply.result, LeaseResult::Decided(_, Some(_))));
}

/// Takes units of two limiters, of which `ada` is lost. The reply waits for its turn, which does not come.
async fn in_vain(store: &FakeStore, layer: &Carry<FakeStore>, kind: AskKind) -> GaveUp {
    takes(layer, &[ask(0, "ada", 1), ask(0, "bob", 1)]).await;
    sleep(3 * MS).await;
    store.fault([Some(Fault::RepliesAfter(10 * MS)), None, Some(Fault::Takes(95 * MS))]);
    let carries = async {
        sleep(8 * MS).await;
        evict(store, 0, "ada");
        looks(layer, 0).await;
    };
    let all = ["ada", "bob"].map(|key| KeyAsk { kind, ..ask(0, key, 2) });
    tokio::join!(layer.step(&all, asking(layer)), carries).0.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_waits_in_vain_gives_its_units_back_unless_they_are_kept() {
    use AskKind::{Question, Report};
    for (kind, is_kept, left) in [(Question, false, 1), (Question, true, 3), (Report, false, 3)] {
        let (store, layer) = &node();
        let late = in_vain(store, layer, kind).await.late;
        if is_kept {
            late.keep();
        } else {
            drop(late);
        }
        let_tasks_run().await;
        assert_eq!(used_of(store, 0, "bob"), left, "{kind:?}, kept: {is_kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_whose_caller_is_gone_gives_its_units_back() {
    let (store, layer) = &node();
    let asked = in_vain(store, layer, AskKind::Question);
    assert!(tokio::time::timeout(50 * MS, asked).await.is_err());
    let_tasks_run().await;
    assert_eq!(used_of(store, 0, "bob"), 1);
}

/// Another server takes over between the reply that a limiter is lost and the question that carries.
#[tokio::test(start_paused = true)]
async fn a_server_that_takes_over_before_units_are_carried_keeps_no_older_state() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, layer) = &node();
        takes(layer, &[ask(rule, "ada", 1)]).await;
        DataLoss::FailedOver.happens_to(store, store.copy());
        takes(layer, &[ask(rule, "bob", 1)]).await;
        sleep(3 * MS).await;
        let copy = store.copy();
        takes(layer, &[ask(rule, "bob", LIMIT - 2)]).await;
        sleep(3 * MS).await;
        store.fault([None, Some(Fault::Takes(10 * MS))]);
        let both = [ask(rule, "ada", 0), ask(rule, "bob", 0)];
        let fails_over = async {
            sleep(5 * MS).await;
            DataLoss::FailedOver.happens_to(store, copy);
        };
        tokio::join!(takes(layer, &both), fails_over);
        looks(layer, rule).await;
        let bob = layer.step(&[ask(rule, "bob", LIMIT / 2)], asking(layer)).await.unwrap();
        assert!(!bob.allowed, "{algorithm}");
    }
}

/// The look was decided before the units were carried, and its reply comes after all of them came back.
#[tokio::test(start_paused = true)]
async fn a_late_reply_takes_nothing_again_that_came_back() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, layer) = &node();
        let first = takes(layer, &[ask(rule, "ada", 3)]).await;
        sleep(3 * MS).await;
        store.fault([Some(Fault::RepliesAfter(30 * MS))]);
        let others = async {
            sleep(3 * MS).await;
            let second = takes(layer, &[ask(rule, "ada", 2)]).await;
            sleep(3 * MS).await;
            DataLoss::RestartedEmpty.happens_to(store, store.copy());
            looks(layer, rule).await;
            for taken in [second, first] {
                sleep(3 * MS).await;
                gives_back(layer, &taken).await;
            }
        };
        tokio::join!(looks(layer, rule), others);
        let before = used(store, rule);
        looks(layer, rule).await;
        assert_eq!(used(store, rule), before, "{algorithm}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_lease_that_carries_and_is_late() {
    let (store, layer) = &node();
    takes(layer, &[ask(0, "ada", 2)]).await;
    DataLoss::RestartedEmpty.happens_to(store, store.copy());
    store.fault([None, Some(Fault::Takes(5_000 * MS))]);
    let look = async {
        sleep(200 * MS).await;
        looks(layer, 0).await;
    };
    let of = ask(0, "ada", 2);
    let (is_granted, ()) = tokio::join!(takes_lease(layer, &of, 2), look);
    assert!(!is_granted);
}
