//! Replies that come while units are carried, or that say that the store has lost units.

use super::*;

#[tokio::test(start_paused = true)]
async fn units_that_come_back_while_a_lease_of_the_lost_store_ends_stay_back() {
    let mut granted = 0;
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, layer) = &node();
        let leased = ask(rule, "ada", 3);
        if !takes_lease(layer, &leased, 3).await {
            continue;
        }
        granted += 1;
        let taken = takes(layer, &[ask(rule, "ada", 2)]).await;
        DataLoss::RestartedEmpty.happens_to(store, store.copy());
        // The settlement carries the units with its second question; the lease has no record any more.
        store.fault([None, Some(Fault::Takes(Duration::from_millis(20)))]);
        let ends = async {
            sleep(Duration::from_millis(10)).await;
            layer.give_back_lease(&rest_of(&leased, 3), 1).await.unwrap().unwrap().given_back
        };
        let ((), given_back) = tokio::join!(gives_back(layer, &taken), ends);
        assert_eq!(given_back, GivenBack::NotTaken, "{algorithm}");
        looks(layer, rule).await;
        // No more than a unit is lost to rounding.
        assert!((3..=4).contains(&used(store, rule)), "{algorithm}");
    }
    assert!(granted > 0, "no algorithm grants leases");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_lease_hides_no_loss() {
    let mut granted = 0;
    for case in 0..2 * AlgorithmKind::ALL.len() {
        let (rule, has_record) = (case / 2, case % 2 > 0);
        let (store, layer) = &node();
        let leased = ask(rule, "ada", LIMIT / 2);
        if !takes_lease(layer, &leased, LIMIT / 2).await {
            continue;
        }
        granted += 1;
        takes(layer, &[ask(rule, "ada", LIMIT / 2 - 2)]).await;
        sleep(Duration::from_millis(3)).await;
        let mut kept = store.copy();
        kept.forget_limiter(&leased);
        store.put(if has_record { kept } else { FakeLimiters::of_server(1) });
        let end = layer.give_back_lease(&rest_of(&leased, 1), 1).await.unwrap().unwrap();
        assert_ne!(end.given_back, GivenBack::Back, "case {case}");
        let more = admitted(layer, rule, u64::MAX).await;
        assert!((1..=2).contains(&more), "case {case}: {more}");
    }
    assert!(granted > 0, "no algorithm grants leases");
}

#[tokio::test(start_paused = true)]
async fn an_undo_at_a_store_that_lost_its_units_hides_no_loss() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, layer) = &node();
        let units = admitted(layer, rule, LIMIT - 5).await;
        let some = [ask(rule, "ada", 3)];
        let reply = layer.step(&some, asking(layer)).await.unwrap();
        sleep(Duration::from_millis(3)).await;
        DataLoss::Flushed.happens_to(store, store.copy());
        layer.undo(&some, asking(layer), &reply).await;
        let more = admitted(layer, rule, u64::MAX).await;
        assert!(units + more <= store.left(&ask(rule, "bob", 0)), "{algorithm}: {more}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_of_the_former_server_takes_nothing_again_that_came_back() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        for is_overtaken in [false, true] {
            let (store, layer) = &node();
            takes(layer, &[ask(rule, "ada", 3)]).await;
            sleep(Duration::from_millis(3)).await;
            let taken = takes(layer, &[ask(rule, "ada", 2)]).await;
            // A look is decided before the loss, and its reply comes while a question carries.
            let late = Some(Fault::RepliesAfter(Duration::from_millis(10)));
            let carries = Some(Fault::Takes(Duration::from_millis(20)));
            let rest = async {
                sleep(Duration::from_millis(1)).await;
                if is_overtaken {
                    gives_back(layer, &taken).await;
                }
                DataLoss::RestartedEmpty.happens_to(store, store.copy());
                if is_overtaken {
                    looks(layer, rule).await;
                } else {
                    gives_back(layer, &taken).await;
                }
            };
            let before = is_overtaken.then_some(None);
            store.fault([late].into_iter().chain(before).chain([None, carries]));
            tokio::join!(looks(layer, rule), rest);
            looks(layer, rule).await;
            let used = used(store, rule);
            // No more than a unit is lost to rounding. A queue gets back no slot that was carried.
            let most = if algorithm.is_queue() { 5 } else { 4 };
            assert!((3..=most).contains(&used), "{algorithm}, {is_overtaken}: {used}");
        }
    }
}

/// The end of a lease says how many units another node took, so this node knows of them.
#[tokio::test(start_paused = true)]
async fn a_late_end_of_a_lease_at_the_former_server_is_noted() {
    let mut granted = 0;
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, nodes) = nodes(2);
        let [one, other] = &nodes[..] else { unreachable!("two nodes") };
        let leased = ask(rule, "ada", 3);
        if !takes_lease(one, &leased, 3).await {
            continue;
        }
        granted += 1;
        let mut units = admitted(other, rule, LIMIT / 2).await;
        store.fault([Some(Fault::RepliesAfter(Duration::from_millis(10)))]);
        let rest = rest_of(&leased, 3);
        let loses = async {
            sleep(Duration::from_millis(1)).await;
            DataLoss::RestartedEmpty.happens_to(&store, store.copy());
            looks(one, rule).await;
        };
        let (end, ()) = tokio::join!(one.give_back_lease(&rest, 1), loses);
        assert_eq!(end.unwrap().unwrap().given_back, GivenBack::Back, "{algorithm}");
        units += admitted(one, rule, u64::MAX).await;
        assert!(units <= LIMIT, "{algorithm}: {units}");
    }
    assert!(granted > 0, "no algorithm grants leases");
}

/// The units of a reply that comes while another request carries are carried as well.
#[tokio::test(start_paused = true)]
async fn units_of_which_a_late_reply_tells_are_carried_too() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        for loss in [DataLoss::Flushed, DataLoss::RestartedEmpty] {
            let (store, layer) = &node();
            takes(layer, &[ask(rule, "ada", 5)]).await;
            sleep(Duration::from_millis(3)).await;
            let late = Some(Fault::RepliesAfter(Duration::from_millis(10)));
            store.fault([late, None, Some(Fault::Takes(Duration::from_millis(20)))]);
            let (two, three) = ([ask(rule, "ada", 2)], [ask(rule, "ada", 3)]);
            let carries = async {
                sleep(Duration::from_millis(1)).await;
                loss.happens_to(store, store.copy());
                takes(layer, &three).await;
            };
            tokio::join!(takes(layer, &two), carries);
            let more = admitted(layer, rule, u64::MAX).await;
            let all = store.left(&ask(rule, "bob", 0));
            // No more than a unit is lost to rounding.
            assert!((all - 1..=all).contains(&(10 + more)), "{algorithm}, {loss:?}: {more}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_undo_leaves_the_units_of_other_nodes_known() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, nodes) = nodes(2);
        let [one, other] = &nodes[..] else { unreachable!("two nodes") };
        let units = admitted(other, rule, LIMIT / 2).await;
        let some = [ask(rule, "ada", 1)];
        let reply = one.step(&some, asking(one)).await.unwrap();
        sleep(Duration::from_millis(3)).await;
        one.undo(&some, asking(one), &reply).await;
        DataLoss::RestartedEmpty.happens_to(&store, store.copy());
        let more = admitted(one, rule, u64::MAX).await;
        assert!(units + more <= store.left(&ask(rule, "bob", 0)), "{algorithm}: {more}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_to_a_returned_permit_forgets_no_other() {
    for case in 0..2 * AlgorithmKind::ALL.len() {
        let (rule, is_same_instant) = (case / 2, case % 2 > 0);
        let (store, layer) = &node();
        takes(layer, &[ask(rule, "ada", 1)]).await;
        sleep(Duration::from_millis(3)).await;
        let taken = takes(layer, &[ask(rule, "ada", 2)]).await;
        sleep(Duration::from_millis(3)).await;
        store.fault([Some(Fault::RepliesAfter(Duration::from_millis(10)))]);
        let later = async {
            if !is_same_instant {
                sleep(Duration::from_millis(3)).await;
            }
            takes(layer, &[ask(rule, "ada", 2)]).await;
        };
        tokio::join!(gives_back(layer, &taken), later);
        DataLoss::RestartedEmpty.happens_to(store, store.copy());
        looks(layer, rule).await;
        let used = used(store, rule);
        // No more than a unit is lost to rounding.
        assert!((3..=4).contains(&used), "case {case}: {used}");
    }
}

/// The units of `bob` came back since this node was last told of them, and its server has lost nothing.
#[tokio::test(start_paused = true)]
async fn a_limiter_of_a_former_server_proves_no_loss_of_the_next() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        for asks in [["ada", "cat"], ["cat", "ada"]] {
            let (store, nodes) = nodes(2);
            let [one, other] = &nodes[..] else { unreachable!("there are two") };
            let copy = store.copy();
            takes(one, &[ask(rule, "ada", 1)]).await;
            DataLoss::FailedOver.happens_to(&store, copy);
            takes(one, &[ask(rule, "cat", 1)]).await;
            let taken = takes(one, &[ask(rule, "bob", LIMIT / 2)]).await;
            sleep(Duration::from_millis(3)).await;
            gives_back(other, &taken).await;
            takes(one, &asks.map(|key| ask(rule, key, 1))).await;
            let again = one.step(&[ask(rule, "bob", LIMIT - 1)], asking(one)).await.unwrap();
            assert!(again.allowed, "{algorithm}, {asks:?}");
        }
    }
}

/// The server of `bob` has lost nothing: another server answered for it, and it has fewer units of `ada` than this node.
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_again_is_not_found_to_have_lost_data() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, nodes) = nodes(2);
        let [one, other] = &nodes[..] else { unreachable!("there are two") };
        for key in ["ada", "bob"] {
            let taken = takes(one, &[ask(rule, key, LIMIT / 2)]).await;
            sleep(Duration::from_millis(3)).await;
            gives_back(other, &taken).await;
            takes(other, &[ask(rule, key, 1)]).await;
        }
        sleep(Duration::from_millis(3)).await;
        let own = store.copy();
        DataLoss::FailedOver.happens_to(&store, store.copy());
        store.fault([None, Some(Fault::Takes(Duration::from_millis(10)))]);
        let back = async {
            sleep(Duration::from_millis(5)).await;
            store.put(own);
        };
        tokio::join!(looks(one, rule), back);
        takes(one, &[ask(rule, "bob", 0)]).await;
        assert_eq!(used_of(&store, rule, "bob"), 1, "{algorithm}");
    }
}
