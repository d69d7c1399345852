//! Waiting for a limiter without a limit, and for a key among many.

use crate::tasks::{Task, bucket, ms};
use std::time::Duration;
use tidegate::{AlgorithmKind, KeyedLimiter, Limiter, ManualClock, Spec};

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
fn many_keys_at_once_pass_no_waiter() {
    let clock = ManualClock::new();
    let limiter = KeyedLimiter::with_clock(bucket(10), clock.clone()).unwrap();
    assert!(limiter.admits("a", 10));
    let _waits = Task::begun(limiter.acquire("a", 4, ms(100)), &clock);
    clock.advance(ms(3));
    assert_eq!(limiter.check_many(&["b", "a"]), [true, false]);
}
