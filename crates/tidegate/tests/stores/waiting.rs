//! Waiting over a store: each process has a queue, and its head asks again.

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Answer, Descriptor, Gate, Limit, Micros, OnExcess, OnStoreError, Policy,
    Request, RuleSpec, SharedGate, Spec,
};
use tokio::task::{JoinHandle, yield_now};

use crate::server::{Server, check, gate_of, gate_over, rule, settings, setup};

const DAY: Duration = Duration::from_secs(86_400);

const fn patient(days: u64, max_waiters: usize) -> OnExcess {
    OnExcess::Wait { wait: Duration::from_secs(86_400 * days), max_waiters }
}

async fn gate(server: &Server, rules: Vec<RuleSpec>) -> Arc<SharedGate> {
    Arc::new(gate_over(&server.url(), rules).await.0)
}

/// Returns the answer to a request that waits for `cost` units.
async fn acquire(gate: &SharedGate, cost: u64) -> (bool, Option<Duration>, u64) {
    let answer = gate.acquire(Descriptor::new(&[("user", "ada")]).cost(cost)).await;
    assert!(!answer.is_degraded());
    (answer.is_allowed(), answer.retry_after(), answer.at().as_micros())
}

fn waiting(gate: &SharedGate) -> usize {
    gate.waiting(Descriptor::new(&[("user", "ada")]))
}

/// Starts one more waiter, and returns when it is in the queue.
async fn waiter<T: Debug + Send + 'static>(
    gate: &Arc<SharedGate>,
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let before = waiting(gate);
    let task = tokio::spawn(task);
    while waiting(gate) == before {
        if task.is_finished() {
            panic!("it does not wait: {:?}", task.await);
        }
        yield_now().await;
    }
    task
}

async fn waiter_for(
    gate: &Arc<SharedGate>,
    cost: u64,
) -> JoinHandle<(bool, Option<Duration>, u64)> {
    let own = Arc::clone(gate);
    waiter(gate, async move { acquire(&own, cost).await }).await
}

async fn give_back(gate: &SharedGate, units: u64) {
    let _ = gate.refund(Descriptor::new(&[("user", "ada")]).cost(units)).await.unwrap();
}

#[tokio::test]
async fn two_processes_share_a_limit_and_each_keeps_its_order() {
    let server = Server::start(&[]);
    let window = Duration::from_millis(250);
    let rules = || {
        let spec = Spec::new(AlgorithmKind::SlidingLog, 1, window);
        vec![RuleSpec::new("r", spec).key(["user"]).on_excess(patient(1, 100))]
    };
    let gates = [gate(&server, rules()).await, gate(&server, rules()).await];
    let mut tasks = tokio::task::JoinSet::new();
    // Tasks of one thread start in the order in which they are created.
    for number in 0..4 {
        for (process, gate) in gates.iter().enumerate() {
            let gate = Arc::clone(gate);
            tasks.spawn(async move { (acquire(&gate, 1).await, process, number) });
        }
    }
    let mut ends = tasks.join_all().await;
    assert!(ends.iter().all(|((allowed, _, _), _, _)| *allowed));
    ends.sort_unstable_by_key(|((_, _, at_us), _, _)| *at_us);
    let are_apart =
        ends.windows(2).all(|pair| pair[1].0.2 - pair[0].0.2 >= Micros::from(window).as_micros());
    assert!(are_apart, "{ends:?}");
    for process in 0..2 {
        let own = ends.iter().filter(|end| end.1 == process).map(|end| end.2);
        assert_eq!(own.collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}

#[tokio::test]
async fn what_can_not_be_in_time_is_refused_at_once_with_the_time_it_would_have_taken() {
    // Of cost 2 and a limit of 3 one request fits into a window, and a unit of it stays free.
    for (algorithm, cost) in AlgorithmKind::ALL.iter().flat_map(|one| [(*one, 1), (*one, 2)]) {
        refused_with_its_wait(algorithm, cost).await;
    }
}

async fn refused_with_its_wait(algorithm: AlgorithmKind, cost: u64) {
    let server = Server::start(&[]);
    let hour = Duration::from_secs(3_600);
    // Longer than two days: some algorithms make the sixth request of a burst wait that long.
    let wait = Duration::from_secs(49 * 3_600);
    let own = rule(algorithm, 3).on_excess(OnExcess::Wait { wait, max_waiters: 9 });
    let shared = gate(&server, vec![own.clone()]).await;
    let memory = Gate::new(Policy::new(vec![own]).unwrap());
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let (unit, descriptors) = (Request::new("default", &descriptors), [descriptors[0].cost(cost)]);
    let request = Request::new("default", &descriptors);
    // Takes all units, and adds waiters until one more would be too late.
    while memory.peek(&unit).is_allowed() {
        assert!(memory.check(&unit).is_allowed());
        assert!(check(&shared, "ada", 1).await.is_allowed());
    }
    let (mut here, mut there) = (Vec::new(), Vec::new());
    let answer = loop {
        let mut one = Box::pin(memory.acquire(&request));
        match poll_fn(|context| Poll::Ready(one.as_mut().poll(context))).await {
            Poll::Ready(answer) => break answer,
            Poll::Pending => here.push(one),
        }
        there.push(waiter_for(&shared, cost).await);
    };
    assert!(!answer.is_allowed() && !here.is_empty(), "{algorithm}: {} wait", here.len());
    let (allowed, retry_after, _) = acquire(&shared, cost).await;
    let (wait, other) = (retry_after.unwrap(), answer.retry_after().unwrap());
    let apart = wait.as_micros().abs_diff(other.as_micros());
    assert!(!allowed && apart < hour.as_micros(), "{algorithm}, {cost}: {wait:?} and {other:?}");
    assert_eq!(waiting(&shared), there.len(), "{algorithm}: it did not wait");
    there.iter().for_each(JoinHandle::abort);
}

/// Polls a future `times` times and drops it right after the last poll; returns its output if it ended.
async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut polls) = (pin!(future), 0);
    poll_fn(|context| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(context) {
            Poll::Pending if polls == times => Poll::Ready(None),
            polled => polled.map(Some),
        }
    })
    .await
}

#[tokio::test]
async fn a_request_that_is_dropped_after_any_poll_takes_nothing() {
    let server = Server::start(&[]);
    // The later slots of a queue are already promised.
    let all =
        AlgorithmKind::ALL.iter().filter(|algorithm| **algorithm != AlgorithmKind::LeakyQueue);
    for algorithm in all {
        let gate = gate(&server, vec![rule(*algorithm, 5).on_excess(patient(9, 9))]).await;
        let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(2));
        let limit = gate.peek(&request).await.matched()[0].decision().remaining;
        for times in 0.. {
            let ended = polled(times, gate.acquire(request.returning_delay())).await;
            assert_eq!(gate.waiting(&request), 0);
            let expected = if ended.is_some() { limit - 2 } else { limit };
            while gate.peek(&request).await.matched()[0].decision().remaining != expected {
                yield_now().await;
            }
            if ended.is_some() {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_waiter_that_is_dropped_after_any_poll_leaves_its_place_to_the_next() {
    let server = Server::start(&[]);
    let gate =
        gate(&server, vec![rule(AlgorithmKind::TokenBucket, 1).on_excess(patient(99, 9))]).await;
    assert!(acquire(&gate, 1).await.0);
    let request = Request::from(Descriptor::new(&[("user", "ada")]));
    for times in 0..4 {
        let own = Arc::clone(&gate);
        let leaves = async move { acquire(&own, 1).await };
        let first = tokio::spawn(async move { polled(times, leaves).await.is_some() });
        while gate.waiting(&request) == 0 && !first.is_finished() {
            yield_now().await;
        }
        let own = Arc::clone(&gate);
        let next = tokio::spawn(async move { acquire(&own, 1).await });
        // The first may leave while the next comes.
        while waiting(&gate) < 2 && !(first.is_finished() && waiting(&gate) == 1) {
            yield_now().await;
        }
        give_back(&gate, 1).await;
        // Replies may come before they are awaited, so it may be admitted in fewer polls.
        if first.await.unwrap() {
            give_back(&gate, 1).await;
        }
        assert!(next.await.unwrap().0, "after {times} polls");
    }
}

#[tokio::test]
async fn while_the_store_is_away_nobody_waits_and_each_rule_decides() {
    for (choice, unavailable) in [(OnStoreError::Closed, true), (OnStoreError::Open, false)] {
        let mut server = Server::start(&[]);
        let own =
            rule(AlgorithmKind::TokenBucket, 1).on_excess(patient(9, 9)).on_store_error(choice);
        let gate = gate(&server, vec![own]).await;
        assert!(acquire(&gate, 1).await.0);
        let mut waiters = Vec::new();
        for _ in 0..3 {
            let own = Arc::clone(&gate);
            let reported = |answer: Answer<'_>| (answer.is_degraded(), answer.is_unavailable());
            let acquire = async move {
                reported(
                    own.acquire(
                        Request::from(Descriptor::new(&[("user", "ada")])).returning_delay(),
                    )
                    .await,
                )
            };
            waiters.push(waiter(&gate, acquire).await);
        }
        server.kill();
        assert!(check(&gate, "bob", 1).await.is_degraded());
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap(), (true, unavailable));
        }
    }
}

#[tokio::test]
async fn a_repeated_id_is_answered_though_others_wait() {
    let server = Server::start(&[]);
    let own = rule(AlgorithmKind::SlidingLog, 1).on_excess(patient(9, 9)).dedupe(DAY);
    let gate = gate(&server, vec![own]).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")])).with_id("a").unwrap();
    assert!(gate.acquire(&request).await.is_allowed());
    let waits = waiter_for(&gate, 1).await;
    assert!(gate.acquire(&request).await.is_repeated());
    assert!(gate.check(&request).await.is_repeated());
    assert_eq!(waiting(&gate), 1);
    waits.abort();
}

#[tokio::test]
async fn an_observer_learns_of_every_decision_and_which_were_degraded() {
    let mut server = Server::start(&[]);
    let (decided, degraded) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (Arc::clone(&decided), Arc::clone(&degraded));
    let observer = move |_: &Request<'_>, answer: &Answer<'_>| {
        counts.0.fetch_add(1, SeqCst);
        counts.1.fetch_add(u64::from(answer.is_degraded()), SeqCst);
    };
    let mut own = rule(AlgorithmKind::TokenBucket, 5).on_excess(patient(1, 1));
    own.spec.limit = Limit::Units(5);
    let setup = setup(vec![own]).observer(Arc::new(observer));
    let (gate, _) = gate_of(settings(&server.url()), setup).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")]));
    let counted = || (decided.load(SeqCst), degraded.load(SeqCst));
    let _ = gate.check(&request).await;
    let _ = gate.acquire(request.returning_delay()).await;
    let _ = gate.acquire(&request).await;
    let _ = gate.peek(&request).await;
    let _ = gate.refund(&request).await.unwrap();
    assert_eq!(counted(), (3, 0));
    server.kill();
    while gate.check(&request).await.is_allowed() && !gate.acquire(&request).await.is_degraded() {}
    let (all, without_store) = counted();
    assert!(all > 3 && without_store > 0 && without_store == gate.counts().degraded());
}
