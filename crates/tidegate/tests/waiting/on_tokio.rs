//! Waiting inside tokio: its paused clock, its real one, and tasks that are aborted.

use std::sync::Arc;
use std::time::Duration;

use crate::tasks::bucket;
use tidegate::{AlgorithmKind, Clock, Concurrency, Limiter, Spec, TokioClock};

#[tokio::test(start_paused = true)]
async fn under_tokios_paused_clock_every_waiter_runs_at_its_instant() {
    let clock = TokioClock::new();
    let limiter = Arc::new(Limiter::with_clock(bucket(10), clock).unwrap());
    assert!(limiter.admits(10));
    let began = clock.now();
    let mut tasks = Vec::new();
    for cost in [3, 1, 5, 1] {
        let limiter = Arc::clone(&limiter);
        tasks.push(tokio::spawn(async move {
            let decision = limiter.acquire(cost, Duration::from_secs(1)).await;
            (decision.is_allowed(), clock.now().duration_since(began))
        }));
        tokio::task::yield_now().await;
    }
    for (task, ms) in tasks.into_iter().zip([3, 4, 9, 10]) {
        assert_eq!(task.await.unwrap(), (true, Duration::from_millis(ms)));
    }
}

#[tokio::test(start_paused = true)]
async fn an_aborted_task_lets_those_behind_it_move_up() {
    let clock = TokioClock::new();
    let limiter = Arc::new(Limiter::with_clock(bucket(10), clock).unwrap());
    assert!(limiter.admits(10));
    let began = clock.now();
    let spawn = |cost| {
        let limiter = Arc::clone(&limiter);
        tokio::spawn(
            async move { limiter.acquire(cost, Duration::from_secs(1)).await.is_allowed() },
        )
    };
    let (first, second) = (spawn(9), spawn(2));
    tokio::task::yield_now().await;
    assert_eq!(limiter.waiting(), 2);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert!(second.await.unwrap());
    assert_eq!(clock.now().duration_since(began), Duration::from_millis(2));
}

/// Real threads and real time: all are served, and the limit holds in what it leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_on_several_threads_lose_no_wakeup_by_the_systems_clock() {
    let limiter = Arc::new(
        Limiter::new(Spec::new(AlgorithmKind::TokenBucket, 50, Duration::from_millis(5))).unwrap(),
    );
    let in_flight = Concurrency::new(3);
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let (limiter, in_flight) = (Arc::clone(&limiter), in_flight.clone());
            tokio::spawn(async move {
                let permit = in_flight.acquire(1, Duration::from_secs(600)).await;
                assert!(permit.is_some() && in_flight.in_flight() <= 3);
                limiter.acquire(1, Duration::from_secs(600)).await.is_allowed()
            })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap());
    }
    assert_eq!((in_flight.in_flight(), limiter.waiting()), (0, 0));
}
