//! Waiting for a limiter whose limit changes, for a limiter without a limit, and for a key among many.

use crate::tasks::{Task, bucket, ms, run, settle};
use std::time::Duration;
use tidegate::{AlgorithmKind, Clock, Decision, KeyedLimiter, Limiter, ManualClock, Spec};

/// A bucket of `limit` tokens that is empty, one token to come each millisecond.
fn empty(limit: u64) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let limiter = Limiter::with_clock(bucket(limit), clock.clone()).unwrap();
    assert!(limiter.admits(limit));
    (limiter, clock)
}

fn denied(decision: &Decision) -> Option<Duration> {
    assert!(!decision.is_allowed());
    decision.retry_after()
}

fn end<T: Copy>(task: &Task<'_, T>) -> T {
    task.end.as_ref().expect("it is over").1
}

#[test]
fn an_unlimited_limiter_makes_nobody_wait() {
    let clock = ManualClock::new();
    let spec = Spec::unlimited(AlgorithmKind::TokenBucket);
    let limiter = Limiter::with_clock(spec, clock.clone()).unwrap();
    let task = Task::begun(limiter.acquire(u64::MAX, Duration::ZERO), &clock);
    assert_eq!(end(&task).limit, u64::MAX);
    assert!(limiter.acquire_blocking(u64::MAX, Duration::ZERO).is_allowed());
}

#[test]
fn a_changed_limit_wakes_the_head() {
    let (limiter, clock) = empty(10);
    let began = clock.now();
    let mut tasks: Vec<_> = [4, 20, 1]
        .map(|cost| Task::begun(limiter.acquire(cost, ms(20)), &clock))
        .into_iter()
        .collect();
    assert!(tasks[1].is_over(), "never, with a limit of 10");
    // Twice as many in the same time, and what was used stays used.
    limiter.amend(Spec::new(AlgorithmKind::TokenBucket, 20, ms(10))).unwrap();
    assert_eq!([tasks[0].wakes(), tasks[2].wakes()], [1, 0]);
    settle(&mut tasks, &clock);
    assert!(tasks[0].is_over() && tasks[2].is_over(), "ten are there now");
    // A waiter that cannot be admitted in time any more is refused when it learns of that.
    assert!(limiter.admits(5));
    let mut late = vec![Task::begun(limiter.acquire(4, ms(2)), &clock)];
    limiter.amend(Spec::new(AlgorithmKind::TokenBucket, 10, ms(100))).unwrap();
    settle(&mut late, &clock);
    assert!(denied(&end(&late[0])) > Some(ms(2)));
    assert_eq!((clock.now(), limiter.waiting()), (began, 0));
    limiter.amend(Spec::unlimited(AlgorithmKind::TokenBucket)).unwrap();
    assert!(limiter.admits(1_000));
}

#[test]
fn each_key_has_a_line_of_its_own() {
    let clock = ManualClock::new();
    let limiter = KeyedLimiter::with_clock(bucket(10), clock.clone()).unwrap();
    assert!(limiter.admits("a", 10));
    let began = clock.now();
    let mut tasks: Vec<_> = [4, 2]
        .map(|cost| Task::begun(limiter.acquire("a", cost, ms(100)), &clock))
        .into_iter()
        .collect();
    assert_eq!([limiter.waiting("a"), limiter.waiting("b")], [2, 0]);
    assert!(limiter.admits("b", 1));
    assert!(!limiter.admits("a", 1));
    assert_eq!(limiter.check_many(&["b", "a"]), [true, false]);
    assert_eq!(denied(&limiter.check("a", 1)), Some(ms(7)));
    run(&mut tasks, &clock);
    let ends: Vec<_> = tasks.iter().map(|task| task.end.unwrap().0.duration_since(began)).collect();
    assert_eq!(ends, [ms(4), ms(6)]);
    clock.advance(ms(1));
    assert!(limiter.admits("a", 1));
}
