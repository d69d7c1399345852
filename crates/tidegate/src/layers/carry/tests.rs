//! The layer over a store that loses its data, in virtual time: with every algorithm, and on one node or several.

mod any_order;
mod asked_again;
mod late;

use std::time::Duration;

use tidegate_core::{AlgorithmKind, Spec};
use tokio::time::sleep;

use super::*;
use crate::clock::Clock;
use crate::rules::RuleSpec;
use crate::store::fake::{FakeLimiters, FakeStore, Fault, ask, asking};
use crate::store::{GivenBack, Wanted};

const LIMIT: u64 = 20;

/// The carry layers of some nodes over a store with a rule of each algorithm.
fn nodes(count: usize) -> (FakeStore, Vec<Carry<FakeStore>>) {
    let rules = AlgorithmKind::ALL.iter().map(|algorithm| {
        let spec = Spec::new(*algorithm, LIMIT, Duration::from_secs(60));
        RuleSpec::new(algorithm.name(), spec)
    });
    let store = FakeStore::new(rules.collect());
    store.put(FakeLimiters::of_server(1));
    let layer = || Carry::new(store.clone(), Arc::clone(&store.generation), Arc::new(|_| ()));
    let nodes = (0..count).map(|_| layer()).collect();
    (store, nodes)
}

/// A store, and the carry layer of its only node.
fn node() -> (FakeStore, Carry<FakeStore>) {
    let (store, mut nodes) = nodes(1);
    (store, nodes.remove(0))
}

/// Takes the units of a request, and returns its asks as a settlement names them.
async fn takes(layer: &Carry<FakeStore>, asks: &[KeyAsk]) -> Vec<KeyAsk> {
    let reply = layer.step(asks, asking(layer)).await.unwrap();
    let replies = reply.replies.iter().flatten().zip(asks);
    replies.map(|(one, ask)| KeyAsk { taken: one.decided.taken, ..ask.clone() }).collect()
}

/// Gives all units of a request back.
async fn gives_back(layer: &Carry<FakeStore>, taken: &[KeyAsk]) {
    settles(layer, taken).await.unwrap();
}

async fn settles(layer: &Carry<FakeStore>, taken: &[KeyAsk]) -> Result<StepReply, GaveUp> {
    let settle = StepArgs { actual: &vec![0; taken.len()], ..asking(layer).settling() };
    layer.step(taken, settle).await
}

/// Lets the store lose one limiter.
fn evict(store: &FakeStore, rule: usize, key: &str) {
    let mut kept = store.copy();
    kept.forget_limiter(&ask(rule, key, 0));
    store.put(kept);
}

/// Looks at a limiter.
async fn looks(layer: &Carry<FakeStore>, rule: usize) {
    layer.step(&[ask(rule, "ada", 0)], asking(layer)).await.unwrap();
}

/// The units of a limiter that the store counts, next to a limiter without any.
fn used(store: &FakeStore, rule: usize) -> u64 {
    used_of(store, rule, "ada")
}

fn used_of(store: &FakeStore, rule: usize, key: &str) -> u64 {
    store.left(&ask(rule, "nobody", 0)) - store.left(&ask(rule, key, 0))
}

/// The last units of a lease, which come back.
fn rest_of(leased: &KeyAsk, units: u64) -> Unspent<KeyAsk> {
    let kept = leased.cost - units;
    Unspent { key: leased.clone(), ticket: 0, units, kept, earlier: Micros::ZERO }
}

/// Asks for a unit until it is refused, a few milliseconds apart; returns the units that were admitted.
async fn admitted(layer: &Carry<FakeStore>, rule: usize, most: u64) -> u64 {
    let mut units = 0;
    while units < most {
        let reply = layer.step(&[ask(rule, "ada", 1)], asking(layer)).await.unwrap();
        if !reply.allowed {
            break;
        }
        units += 1;
        sleep(Duration::from_millis(3)).await;
    }
    units
}

/// The losses that a store can come back from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DataLoss {
    RestartedEmpty,
    Flushed,
    /// A replica takes its place that lacks the last writes.
    FailedOver,
}

const LOSSES: [DataLoss; 3] = [DataLoss::RestartedEmpty, DataLoss::Flushed, DataLoss::FailedOver];

async fn used_then_lost(units_before: u64) {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        for loss in LOSSES {
            let (store, layer) = &node();
            let mut units = admitted(layer, rule, LIMIT / 4).await;
            let copy = store.copy();
            units += admitted(layer, rule, units_before - LIMIT / 4).await;
            loss.happens_to(store, copy);
            units += admitted(layer, rule, u64::MAX).await;
            // The store without a loss, asked in the same way.
            let most = admitted(&node().1, rule, u64::MAX).await;
            assert!(units <= most, "{algorithm} {loss:?}: {units} of {most}");
            // No more than a unit is lost to rounding.
            assert!(units + 1 >= most, "{algorithm} {loss:?}: {units} of {most}");
            assert_eq!(layer.counts().carried, 1, "{algorithm} {loss:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_used_up_admits_nothing_after_a_loss() {
    used_then_lost(u64::MAX).await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_used_in_part_admits_the_rest_after_a_loss() {
    used_then_lost(LIMIT / 2).await;
}

#[tokio::test(start_paused = true)]
async fn four_nodes_that_all_know_a_key_admit_nothing_more() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, nodes) = nodes(4);
        let mut units = 0;
        for _ in 0..LIMIT {
            for layer in &nodes {
                units += admitted(layer, rule, 1).await;
            }
        }
        store.put(FakeLimiters::of_server(1));
        for layer in &nodes {
            let more = admitted(layer, rule, u64::MAX).await;
            assert!(more <= 1, "{algorithm}: {more}");
            units += more;
        }
        assert!(units <= LIMIT + 2, "{algorithm}: {units}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_carried_while_the_server_keeps_its_data() {
    for rule in 0..AlgorithmKind::ALL.len() {
        let (_, nodes) = nodes(2);
        let [one, other] = &nodes[..] else { unreachable!("two nodes") };
        admitted(one, rule, LIMIT / 2).await;
        // A reset by another node is not undone, nor are units that it took and gave back.
        let reset = StepArgs { verb: Verb::Reset, ..asking(other) };
        other.step(&[ask(rule, "ada", 0)], reset).await.unwrap();
        let more = admitted(one, rule, LIMIT).await;
        assert_eq!(more, LIMIT, "rule {rule}");
        gives_back(other, &[KeyAsk { taken: Default::default(), ..ask(rule, "ada", LIMIT) }]).await;
        let again = admitted(one, rule, LIMIT).await;
        assert_eq!(again, LIMIT, "rule {rule}");
        sleep(Duration::from_secs(600)).await;
        admitted(one, rule, LIMIT).await;
        assert_eq!(one.counts().carried + other.counts().carried, 0, "rule {rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limiter_whose_units_all_came_back_carries_no_other_of_its_request() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, nodes) = nodes(2);
        let [one, other] = &nodes[..] else { unreachable!("two nodes") };
        let both = [ask(rule, "ada", 1), ask(rule, "bob", LIMIT / 2)];
        let taken = takes(one, &both).await;
        assert_eq!(taken.len(), 2);
        sleep(Duration::from_millis(3)).await;
        gives_back(other, &taken).await;
        // The server keeps no state that is empty.
        let mut limiters = store.copy();
        assert!(limiters.forget_if_idle(&both[0], one.host().now()), "{algorithm}");
        store.put(limiters);
        let all = [ask(rule, "ada", 1), ask(rule, "bob", LIMIT - 1)];
        let again = one.step(&all, asking(one)).await.unwrap();
        assert!(again.allowed, "{algorithm}: the units came back");
        assert_eq!(one.counts().carried, 0, "{algorithm}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_one_limiter_shows_carries_the_others_of_that_server() {
    let (store, layer) = &node();
    let both = [ask(0, "ada", LIMIT), ask(0, "bob", LIMIT)];
    for one in &both {
        assert!(layer.step(std::slice::from_ref(one), asking(layer)).await.unwrap().allowed);
    }
    store.put(FakeLimiters::of_server(1));
    // Another node begins the limiter of one of them before this node asks for it.
    let stranger = Carry::new(store.clone(), Arc::clone(&store.generation), Arc::new(|_| ()));
    let begins = [ask(0, "bob", 1)];
    assert!(stranger.step(&begins, asking(&stranger)).await.unwrap().allowed);
    for name in ["ada", "bob"] {
        let one = [ask(0, name, 1)];
        assert!(!layer.step(&one, asking(layer)).await.unwrap().allowed, "{name}");
    }
    assert_eq!(layer.counts().carried, 2);
}

#[tokio::test(start_paused = true)]
async fn a_loss_by_a_failover_carries_nothing_that_the_new_server_reported() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, nodes) = nodes(2);
        let [one, other] = &nodes[..] else { unreachable!("two nodes") };
        let copy = store.copy();
        admitted(one, rule, 1).await;
        DataLoss::FailedOver.happens_to(&store, copy);
        let taken = takes(one, &[ask(rule, "bob", LIMIT / 2)]).await;
        assert_eq!(taken.len(), 1);
        sleep(Duration::from_millis(3)).await;
        gives_back(other, &taken).await;
        // The unit of the first limiter shows that the new server lacks it, and nothing of the second limiter.
        admitted(one, rule, 1).await;
        let all = [ask(rule, "bob", LIMIT - 1)];
        let again = one.step(&all, asking(one)).await.unwrap();
        assert!(again.allowed, "{algorithm}: the units came back");
        assert_eq!(one.counts().carried, 1, "{algorithm}");
    }
}

impl DataLoss {
    /// Lets the store come back without its data; `copy` has the data of its replica.
    fn happens_to(self, store: &FakeStore, mut copy: FakeLimiters) {
        let server = copy.server;
        copy.server += 1;
        store.put(match self {
            Self::RestartedEmpty => FakeLimiters::of_server(copy.server),
            Self::Flushed => FakeLimiters::of_server(server),
            Self::FailedOver => copy,
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_asks_first_and_knows_less_hides_nothing() {
    let rules = AlgorithmKind::ALL.iter().enumerate();
    for (rule, algorithm) in rules.filter(|(_, algorithm)| !algorithm.units_have_times()) {
        for loss in [DataLoss::RestartedEmpty, DataLoss::FailedOver] {
            let (store, nodes) = nodes(2);
            let [one, other] = &nodes[..] else { unreachable!("two nodes") };
            admitted(other, rule, 1).await;
            let copy = store.copy();
            admitted(one, rule, u64::MAX).await;
            loss.happens_to(&store, copy);
            let first = admitted(other, rule, 1).await;
            assert_eq!(first, 1, "{algorithm} {loss:?}: it knows of one unit");
            for layer in [one, other] {
                let more = admitted(layer, rule, u64::MAX).await;
                assert_eq!(more, 0, "{algorithm} {loss:?}");
            }
        }
    }
}

/// Takes a lease of a limiter; returns if the limiter grants leases.
async fn takes_lease(layer: &Carry<FakeStore>, of: &KeyAsk, units: u64) -> bool {
    let is_granted = takes_lease_with(layer, of, units, 0).await;
    sleep(Duration::from_millis(3)).await;
    is_granted
}

/// Takes a lease with a ticket.
async fn takes_lease_with(layer: &Carry<FakeStore>, of: &KeyAsk, units: u64, ticket: u64) -> bool {
    let life = Micros::from_millis(1_000);
    let wanted = Wanted { ticket, oldest: 0, units, life, earlier: Micros::ZERO };
    let lease = LeaseAsk { wanted: &wanted, node: 1, on_late: &|| (), known: &KnownUse::Nothing };
    let reply = layer.lease(of, lease).await;
    reply.is_in_time && matches!(reply.result, LeaseResult::Decided(_, Some(_)))
}

#[tokio::test(start_paused = true)]
async fn units_of_a_lease_are_carried_until_they_are_given_back() {
    let units = LIMIT / 2;
    let mut granted = 0;
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        for comes_back in [false, true] {
            let (store, layer) = &node();
            let of = ask(rule, "ada", units);
            if !takes_lease(layer, &of, units).await {
                continue;
            }
            granted += 1;
            if comes_back {
                let rest = Unspent { key: of, ticket: 0, units, kept: 0, earlier: Micros::ZERO };
                let reply = layer.give_back_lease(&rest, 1).await.unwrap().unwrap();
                assert_eq!(reply.given_back, GivenBack::Back, "{algorithm}");
                sleep(Duration::from_millis(3)).await;
            }
            store.put(FakeLimiters::of_server(1));
            let more = admitted(layer, rule, u64::MAX).await;
            let left = if comes_back { LIMIT } else { LIMIT - units };
            // No more than a unit is lost to rounding.
            assert!((left - 1..=left).contains(&more), "{algorithm}, {comes_back}: {more}");
        }
    }
    // Queues, permits, and logs without ticks grant no leases.
    assert_eq!(granted, 2 * 5);
}

#[tokio::test(start_paused = true)]
async fn units_that_were_undone_are_not_carried() {
    for (rule, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let (store, layer) = &node();
        let half = [ask(rule, "ada", LIMIT / 2)];
        let reply = layer.step(&half, asking(layer)).await.unwrap();
        sleep(Duration::from_millis(3)).await;
        layer.undo(&half, asking(layer), &reply).await;
        store.put(FakeLimiters::of_server(1));
        let more = admitted(layer, rule, u64::MAX).await;
        // No more than a unit is lost to rounding.
        assert!(more + 1 >= LIMIT, "{algorithm}: {more}");
    }
}

#[tokio::test(start_paused = true)]
async fn units_of_a_lease_that_came_too_late_are_not_carried() {
    for rule in 0..AlgorithmKind::ALL.len() {
        let (store, layer) = &node();
        store.fault([Some(Fault::IsLate)]);
        takes_lease(layer, &ask(rule, "ada", LIMIT / 2), LIMIT / 2).await;
        store.put(FakeLimiters::of_server(1));
        assert!(layer.step(&[ask(rule, "ada", 1)], asking(layer)).await.unwrap().allowed);
        assert_eq!(layer.counts().carried, 0, "rule {rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn units_that_come_back_while_another_request_carries_them_stay_back() {
    let mut granted = 0;
    for case in 0..2 * AlgorithmKind::ALL.len() {
        let rule = case / 2;
        let (store, layer) = &node();
        let taken = takes(layer, &[ask(rule, "ada", 2)]).await;
        assert_eq!(taken.len(), 1);
        DataLoss::FailedOver.happens_to(store, store.copy());
        // The new server has all units, which the first question does not know.
        store.fault([None, Some(Fault::Takes(Duration::from_millis(20)))]);
        let look = [ask(rule, "ada", 0)];
        let carries = async {
            if case % 2 > 0 {
                return u64::from(takes_lease(layer, &look[0], 1).await);
            }
            layer.step(&look, asking(layer)).await.unwrap();
            0
        };
        let (leased, ()) = tokio::join!(carries, gives_back(layer, &taken));
        let left = store.left(&look[0]) + leased;
        assert_eq!(left, store.left(&ask(rule, "bob", 0)), "case {case}");
        granted += leased;
    }
    assert!(granted > 0, "no algorithm grants leases");
}

#[tokio::test]
async fn a_caller_whose_runtime_has_no_timer_waits_for_another_that_carries() {
    let (store, layer) = node();
    takes(&layer, &[ask(0, "ada", LIMIT)]).await;
    DataLoss::RestartedEmpty.happens_to(&store, store.copy());
    store.fault([None, Some(Fault::Takes(Duration::from_millis(20)))]);
    let other = layer.clone();
    let waits = async {
        let own = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tokio::task::spawn_blocking(move || own.block_on(admitted(&other, 0, 1))).await.unwrap()
    };
    let more = tokio::join!(admitted(&layer, 0, 1), waits);
    assert_eq!(more, (0, 0));
    assert_eq!(layer.counts().carried, 1);
}
