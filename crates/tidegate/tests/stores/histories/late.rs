//! Histories of four nodes with late replies: properties that still hold of every answer.
//!
//! The store stops again and again, for longer than requests wait. So some requests are decided without it, and
//! it decides them as well, later.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use testkit::model::{self, Model};
use tidegate::{AlgorithmKind, Descriptor, OnStoreError, Request, SharedGate, StoreSettings};
use tokio::time::sleep;

use super::{Answered, Asked, GATES, Pair, counts, history, nodes};
use crate::server::{Server, in_use, settings};

/// The number of requests of each node that wait for an answer together.
const TASKS: u64 = 16;
/// The time that the store stops, again and again, and the time that it then runs.
const STANDS_STILL: Duration = Duration::from_millis(25);
const RUNS: Duration = Duration::from_millis(60);

/// Settings of nodes that wait for less time than the store stops.
fn hasty(server: &Server) -> StoreSettings {
    let mut hasty = settings(&server.url());
    (hasty.timeout, hasty.nodes) = (Duration::from_millis(10), Some(GATES));
    hasty
}

/// Returns all answers of a store that stops now and then, and how many were late.
async fn interrupted(server: &Server, gates: &[Arc<SharedGate>]) -> (Vec<Answered>, u64) {
    let asks = |_: &mut _| Asked { domain: "default", user: 0, cost: 1 };
    let mut all = std::pin::pin!(history(gates, TASKS, asks));
    let all = loop {
        tokio::select! {
            all = &mut all => break all,
            () = sleep(RUNS) => {
                server.signal("STOP");
                sleep(STANDS_STILL).await;
                server.signal("CONT");
            }
        }
    };
    while counts(gates).iter().any(|node| node.under_way > 0) {
        sleep(RUNS).await;
    }
    (all, counts(gates).iter().map(|node| node.late).sum())
}

/// Asserts three properties of a limit of N units.
///
/// - A limiter that nothing else was taken from admits the requests that the store admitted: late units that
///   were given back make no room.
/// - A limiter from which all of these and all late units were taken denies the requests that the store denied.
/// - A limiter of a node's share of N admits the requests that the node admitted without the store.
///
/// So all nodes together exceed the bound of N by at most the bounds of their shares.
fn judge(pair: &Pair, all: &[Answered], late: u64) -> (usize, usize) {
    let (mut exact, mut own): (Vec<_>, Vec<_>) =
        all.iter().cloned().partition(|answer| !answer.degraded);
    exact.sort_by_key(Answered::turn);
    let (mut model, mut for_late) = (Model::new(pair.policy.clone()), 0);
    for answer in &exact {
        let admits = model.peek(answer.at_us, 1).allowed;
        if answer.allowed {
            assert!(admits, "more than the limit: {answer:?}");
            assert!(model.step(answer.at_us, 1).allowed);
        } else if admits {
            let mut with_late = model.clone();
            let _ = with_late.reported(answer.at_us, late);
            let admits = with_late.peek(answer.at_us, 1).allowed;
            assert!(!admits, "less than the limit, {late} late: {answer:?}");
            for_late += 1;
        }
    }
    own.sort_by_key(|answer| (answer.node, answer.at_us, !answer.allowed));
    for node in own.chunk_by(|one, other| one.node == other.node) {
        let limit = pair.policy.limit / GATES;
        let mut model = Model::new(model::Policy { limit, ..pair.policy.clone() });
        for answer in node.iter().filter(|answer| answer.allowed) {
            assert!(model.step(answer.at_us, 1).allowed, "more than its share: {answer:?}");
        }
    }
    (exact.len(), for_late)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_late_makes_no_space_and_a_node_alone_admits_no_more_than_its_share() {
    let server = Server::start(&[]);
    let mut all_late = 0;
    for algorithm in AlgorithmKind::ALL {
        let pair = Pair::new(algorithm.name(), *algorithm, 400, 100).per_user();
        let pair = Pair { spec: pair.spec.on_store_error(OnStoreError::Local), ..pair };
        let gates = nodes(&hasty(&server), std::slice::from_ref(&pair)).await;
        let (all, late) = interrupted(&server, &gates).await;
        let (exact, for_late) = judge(&pair, &all, late);
        println!(
            "{algorithm}: {exact} of {} exact, {for_late} of them denied for {late} late ones",
            all.len()
        );
        all_late += late;
    }
    assert!(all_late > 0, "nothing was late");
}

/// Returns the units in use of a limiter, by the store, as soon as it replies.
async fn used(gate: &SharedGate) -> u64 {
    in_use(gate, &Request::new("default", &[Descriptor::new(&[("user", "0")])])).await
}

/// Waits until the store reports this many units in use.
async fn until_used(gates: &[Arc<SharedGate>], such: RangeInclusive<u64>) -> u64 {
    let mut last = 0;
    for _ in 0..2_000 {
        last = used(&gates[0]).await;
        if such.contains(&last) {
            return last;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("{last} are used, but only {such:?} were admitted: {:?}", counts(gates));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_late_is_given_back_once_but_where_its_request_goes_on() {
    // So many units over such a time that a bucket drains less than one unit during the test.
    const MANY: (u64, u64) = (20_000, 366 * 86_400_000);
    let server = Server::start(&[]);
    let choices = [OnStoreError::Closed, OnStoreError::Local];
    let algorithms = AlgorithmKind::ALL.iter().flat_map(|one| choices.map(|choice| (*one, choice)));
    let mut all_undone = 0;
    // A queue gets nothing back.
    for (algorithm, choice) in algorithms.filter(|(one, _)| *one != AlgorithmKind::LeakyQueue) {
        let name = format!("{algorithm}-{choice:?}").to_lowercase();
        let pair = Pair::new(&name, algorithm, MANY.0, MANY.1).per_user();
        let pair = Pair { spec: pair.spec.on_store_error(choice), ..pair };
        let gates = nodes(&hasty(&server), &[pair]).await;
        let (all, late) = interrupted(&server, &gates).await;
        let count = |degraded| {
            let such = |answer: &&Answered| answer.allowed && answer.degraded == degraded;
            all.iter().filter(such).count() as u64
        };
        let (exact, own) = (count(false), count(true));
        // A bucket keeps the part of a returned unit that would have drained since.
        let such = exact..=exact + own + 1;
        let last = until_used(&gates, such.clone()).await;
        let undone: u64 = counts(&gates).iter().map(|node| node.undone).sum();
        println!("{name}: {exact} exact, {own} others, {late} late, {undone} undone, {last} used");
        for gate in &gates {
            assert!(such.contains(&used(gate).await), "given back more than once: {name}");
        }
        all_undone += undone;
    }
    assert!(all_undone > 0, "nothing was late");
}
