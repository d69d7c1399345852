//! Reservations whose records are in the store: any node settles them, once.

use std::time::Duration;

use tidegate::store::{RecordReply, Store};
use tidegate::{
    AlgorithmKind, Answer, Descriptor, FoundReservation, Request, ReservationRecord, RuleSpec,
    SharedGate, Spec, Taken,
};

use crate::server::nodes::{Nodes, Watched};
use crate::server::{Server, gate_over, lose, rule, served, until_lost};

const LIFE: Duration = Duration::from_secs(60);

fn log() -> Vec<RuleSpec> {
    vec![rule(AlgorithmKind::SlidingLog, 100)]
}

/// Two gates over one store.
async fn two_nodes(url: &str, rules: Vec<RuleSpec>) -> [SharedGate; 2] {
    [gate_over(url, rules.clone()).await.0, gate_over(url, rules).await.0]
}

/// A request of a user over all rules of the default domain, and its cost.
async fn with_request<T>(user: &str, cost: u64, to: impl AsyncFnOnce(&Request<'_>) -> T) -> T {
    let entries = [("user", user)];
    let descriptors = [Descriptor::new(&entries).cost(cost)];
    to(&Request::new("default", &descriptors).reserving()).await
}

/// Takes units, and writes the record; returns whether it was written.
async fn reserve(gate: &SharedGate, id: &[u8], cost: u64, life: Duration) -> bool {
    with_request("ada", cost, async |request| {
        let taken = Taken::from(&gate.check(request).await);
        ReservationRecord::of(gate, id).write(request, &taken, life).await.unwrap()
    })
    .await
}

/// Settles by the record, if there is one that this call claims.
async fn settle<'g>(gate: &'g SharedGate, id: &[u8], actual: u64) -> Option<Answer<'g>> {
    let record = ReservationRecord::of(gate, id);
    let FoundReservation::Open(reserved, left) = record.read().await.unwrap() else { return None };
    assert!(left <= LIFE && !left.is_zero());
    // The address of a local value is as good as a random number here.
    let mine = std::ptr::from_ref(&reserved).addr() as u64;
    if record.claim(mine).await.unwrap() != RecordReply::Done {
        return None;
    }
    let taken = reserved.taken();
    let settle = async |request: &Request<'_>| gate.settle(request, taken, &[actual]).await;
    Some(reserved.ask(settle).await.unwrap())
}

async fn used(gate: &SharedGate) -> Vec<u64> {
    let answer = with_request("ada", 0, async |request| gate.peek(request).await).await;
    let used = |one: &tidegate::Matched<'_>| one.decision().limit - one.decision().remaining;
    answer.matched().iter().map(used).collect()
}

/// Settled at two nodes, units of one reservation came back twice.
#[tokio::test]
async fn a_reservation_of_one_node_is_settled_at_another_and_once() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL.iter().filter(|one| !one.is_queue()) {
        server.run::<()>(&["FLUSHALL"]);
        let [one, other] = two_nodes(&server.url(), vec![rule(*algorithm, 100)]).await;
        assert!(reserve(&one, b"a", 50, LIFE).await);
        assert!(reserve(&one, b"b", 20, LIFE).await);
        assert!(settle(&other, b"a", 5).await.is_some());
        for gate in [&one, &other] {
            assert!(settle(gate, b"a", 5).await.is_none(), "it was settled");
            assert!(matches!(
                ReservationRecord::of(gate, b"a").read().await.unwrap(),
                FoundReservation::Claimed
            ));
        }
        let is_permit = *algorithm == AlgorithmKind::Concurrency;
        let rest = if is_permit { 20 } else { 25 };
        let in_use = used(&one).await[0];
        assert!((rest - 1..=rest).contains(&in_use), "{algorithm}: {in_use}");
    }
}

#[tokio::test]
async fn of_claims_at_once_one_succeeds_and_may_be_repeated() {
    let server = Server::start(&[]);
    let [one, other] = two_nodes(&server.url(), log()).await;
    for number in 0..50_u64 {
        let id = number.to_le_bytes();
        assert!(reserve(&one, &id, 1, LIFE).await);
        let [mine, its] = [&one, &other].map(|gate| ReservationRecord::of(gate, &id));
        let (mine_now, its_now) = tokio::join!(mine.claim(1), its.claim(2));
        let both = [mine_now.unwrap(), its_now.unwrap()];
        assert!(both.contains(&RecordReply::Done) && both.contains(&RecordReply::Claimed));
        let again = [mine.claim(1).await.unwrap(), its.claim(2).await.unwrap()];
        assert_eq!(both, again);
        assert_eq!(mine.extend(LIFE).await.unwrap(), RecordReply::Claimed);
    }
}

#[tokio::test]
async fn a_record_ends_after_its_life_and_its_units_stay_taken() {
    let (server, gate, _) = served(log()).await;
    assert!(reserve(&gate, b"short", 7, Duration::from_millis(1)).await);
    let read = async || ReservationRecord::of(&gate, b"short").read().await.unwrap();
    while !matches!(read().await, FoundReservation::Unknown) {}
    assert!(settle(&gate, b"short", 0).await.is_none());
    assert_eq!(used(&gate).await, [7]);
    // A claim remembers its owner until the record would have ended, and no longer.
    assert!(reserve(&gate, b"longer", 7, LIFE).await);
    assert_eq!(ReservationRecord::of(&gate, b"longer").claim(1).await.unwrap(), RecordReply::Done);
    let keys: Vec<String> = server.run(&["KEYS", "tidegate:{*}?reserved"]);
    assert_eq!(keys.len(), 1);
    assert!(!keys[0].contains("longer"), "{keys:?}");
    let lives: u64 = server.run(&["PTTL", &keys[0]]);
    assert!((1..=60_000).contains(&lives), "{lives}");
}

#[tokio::test]
async fn a_store_that_lost_its_data_knows_no_reservation() {
    let (server, gate, _) = served(log()).await;
    assert!(reserve(&gate, b"a", 7, LIFE).await);
    server.run::<()>(&["FLUSHALL"]);
    assert!(matches!(
        ReservationRecord::of(&gate, b"a").read().await.unwrap(),
        FoundReservation::Unknown
    ));
    assert!(settle(&gate, b"a", 0).await.is_none());
}

/// A request that a node decided without the store cannot be settled by another node.
#[tokio::test]
async fn what_was_taken_without_the_store_has_no_record() {
    let (mut server, gate, events) = served(log()).await;
    lose(&mut server, &gate, &events).await;
    assert!(!reserve(&gate, b"a", 7, LIFE).await);
}

#[tokio::test]
async fn a_reservation_over_two_slots_has_one_record() {
    let cluster = Nodes::start(2, 0);
    let across = |name: &str| {
        let spec = Spec::new(AlgorithmKind::SlidingLog, 100, Duration::from_secs(3_600));
        RuleSpec::new(name, spec).key(["user"]).across_slots()
    };
    let rules = vec![across("a"), across("b"), across("c")];
    let [one, other] = two_nodes(&cluster.url(), rules).await;
    for number in 0..8_u64 {
        let id = number.to_le_bytes();
        assert!(reserve(&one, &id, 9, LIFE).await);
        assert!(settle(&other, &id, 2).await.is_some());
        assert!(settle(&one, &id, 2).await.is_none());
        assert_eq!(used(&one).await, [2 * (number + 1); 3]);
    }
}

/// A rule that another node does not have gets nothing back there.
#[tokio::test]
async fn nodes_with_other_rules_settle_those_that_both_have() {
    let server = Server::start(&[]);
    let two = [AlgorithmKind::SlidingLog, AlgorithmKind::SlidingWindow].map(|one| rule(one, 100));
    let (one, _) = gate_over(&server.url(), two.to_vec()).await;
    let (other, _) = gate_over(&server.url(), two[1..].to_vec()).await;
    assert!(reserve(&one, b"a", 9, LIFE).await);
    let answer = settle(&other, b"a", 2).await.unwrap();
    assert_eq!(answer.unreached()[0].settled().late_units(), 7);
    assert_eq!(used(&one).await, [9, 2]);
}

#[tokio::test]
async fn a_failover_that_kept_the_record_settles_it() {
    let mut watched = Watched::start();
    let (one, _) = gate_over(&watched.url(), log()).await;
    let (other, events) = gate_over(&watched.url(), log()).await;
    assert!(reserve(&one, b"a", 9, LIFE).await);
    let written: Vec<String> = watched.primary.run(&["KEYS", "*?reserved"]);
    while watched.replica.run::<u64>(&["EXISTS", &written[0]]) == 0 {}
    watched.primary.kill();
    until_lost(&other, &events).await;
    other.store().fit().await;
    assert!(settle(&other, b"a", 2).await.is_some());
    assert_eq!(used(&other).await, [2]);
}

/// Whichever node repeats a request learns the name of its reservation, with the units that the first request took, alone
/// and merged with other requests into one call.
#[tokio::test]
async fn a_repeated_answer_names_the_reservation_of_the_first() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL.iter().filter(|one| !one.is_queue()) {
        for several in [false, true] {
            server.run::<()>(&["FLUSHALL"]);
            let mut rules = vec![rule(*algorithm, 100).dedupe(LIFE)];
            if several {
                let other = RuleSpec::new("other", Spec::per_second(1_000)).key(["user"]);
                rules = vec![rules[0].clone().hash_tag("user"), other.hash_tag("user")];
            }
            let [one, other] = two_nodes(&server.url(), rules).await;
            let descriptors = [Descriptor::new(&[("user", "ada")]).cost(7)];
            let request = Request::new("default", &descriptors).with_id("a").unwrap();
            let names = [[1; 16], [2; 16], [3; 16]];
            let first = one.check(&request.reserving_as(&names[0], LIFE)).await;
            assert!(first.is_allowed() && !first.is_repeated());
            assert_eq!(first.first_reservation(), None, "{algorithm}");
            let again = [
                request.reserving_as(&names[1], LIFE),
                request.reserving_as(&names[2], LIFE),
                request.reserving_as(&names[1], LIFE),
                request.reserving(),
            ];
            let merged = tokio::join!(
                other.check(&again[0]),
                one.check(&again[1]),
                one.check(&again[2]),
                one.check(&again[3]),
            );
            for again in [merged.0, merged.1, merged.2, merged.3] {
                let found = again.first_reservation().unwrap();
                assert!(again.is_repeated() && found.name == names[0], "{algorithm}: {found:?}");
                assert!(found.left <= LIFE && !found.left.is_zero(), "{found:?}");
                assert_eq!(Taken::from(&again).tokens().count(), 0);
                assert_eq!(
                    Taken::by_first(&again).tokens().collect::<Vec<_>>(),
                    Taken::from(&first).tokens().collect::<Vec<_>>(),
                );
            }
            // The node that repeats the request writes the record in place of the first node, which settles it.
            let again = other.check(&request.reserving_as(&names[1], LIFE)).await;
            let record = ReservationRecord::of(&other, &names[0]);
            assert!(record.write(&request, &Taken::by_first(&again), LIFE).await.unwrap());
            assert!(settle(&one, &names[0], 2).await.is_some());
            assert!(record.write(&request, &Taken::by_first(&again), LIFE).await.unwrap());
            assert!(settle(&other, &names[0], 0).await.is_none(), "it was settled");
            let is_permit = *algorithm == AlgorithmKind::Concurrency;
            let rest = if is_permit { 0 } else { 2 };
            assert!(used(&one).await[0] <= rest, "{algorithm}");
            // Another verb is another request, and a request that reserves under no name remembers none.
            assert!(!one.check(&request).await.is_repeated());
            let unnamed = Request::new("default", &descriptors).with_id("b").unwrap().reserving();
            assert!(!one.check(&unnamed).await.is_repeated());
            let again = other.check(&unnamed.reserving_as(&names[1], LIFE)).await;
            assert!(again.is_repeated() && again.first_reservation().is_none());
        }
    }
}
