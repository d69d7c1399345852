//! Waiting for a limiter without a limit, and for a key among many.

use crate::tasks::{Task, bucket, ms, run};
use std::time::Duration;
use tidegate::{AlgorithmKind, Clock, Decision, KeyedLimiter, Limiter, ManualClock, Spec};

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
