//! Waiting with a clock that is moved, by examples: wakes, deadlines, and requests that do not wait. The order of admissions
//! is in `walk.rs`, against a naive queue.

use std::time::Duration;
use tidegate::{AlgorithmKind, Clock, Decision, ManualClock, Outcome, Spec};

use crate::kit::every_subject_in_memory;
use crate::subjects::{Case, InMemory, Waiting};
use crate::tasks::{Task, bucket, ms, run, run_until, settle, us};

every_subject_in_memory! {
    [TokenBucket] =>
    nobody_is_woken_twice,
    no_one_overtakes_not_even_a_request_that_would_not_have_waited,
    a_future_that_is_kept_but_not_polled_blocks_no_one_for_ever,
    a_timer_that_rings_late_costs_nobody_what_is_there,
    a_future_that_was_never_polled_never_arrived,
}

every_subject_in_memory! {
    [LeakyQueue] =>
    work_that_is_cancelled_while_a_queue_holds_it_keeps_its_slot,
}

const KEY: &str = "ada";

/// An empty bucket of `limit` tokens that gets one token each millisecond.
fn empty<'k>(case: &Case<'k, dyn InMemory>, limit: u64) -> (Box<dyn Waiting + 'k>, ManualClock) {
    let clock = ManualClock::new();
    let limiter = case.by(&clock, bucket(limit));
    assert!(limiter.admits(KEY, limit));
    (limiter, clock)
}

fn queue<'k>(case: &Case<'k, dyn InMemory>, places: u64) -> (Box<dyn Waiting + 'k>, ManualClock) {
    let clock = ManualClock::new();
    let mut spec = Spec::new(AlgorithmKind::LeakyQueue, 1, ms(1));
    spec.capacity = Some(places);
    (case.by(&clock, spec), clock)
}

fn denied(decision: &Decision) -> Option<Duration> {
    assert!(!decision.is_allowed());
    decision.retry_after()
}

fn end(task: &Task<'_, Decision>) -> Decision {
    task.end.as_ref().expect("it is over").1
}

/// Each waiter is woken once as head, and once by its timer; the first is head from the start.
fn nobody_is_woken_twice(case: &Case<'_, dyn InMemory>) {
    let (limiter, clock) = empty(case, 10);
    let mut tasks: Vec<_> =
        (0..5).map(|_| Task::begun(limiter.acquire(KEY, 1, ms(100)), &clock)).collect();
    run(&mut tasks, &clock);
    let wakes: Vec<_> = tasks.iter().map(Task::wakes).collect();
    assert_eq!(wakes, [1, 2, 2, 2, 2]);
    assert!(tasks.iter().all(|task| task.polls == task.wakes() + 1));
}

fn no_one_overtakes_not_even_a_request_that_would_not_have_waited(case: &Case<'_, dyn InMemory>) {
    let clock = ManualClock::new();
    let limiter = case.by(&clock, bucket(10));
    assert!(limiter.admits(KEY, 5));
    let mut waiter = Task::begun(limiter.acquire(KEY, 8, ms(10)), &clock);
    // Five units are there; eight are waited for, and come in 3 ms.
    assert!(!limiter.admits(KEY, 1));
    assert_eq!(denied(&limiter.check(KEY, 1)), Some(ms(4)));
    assert_eq!(denied(&limiter.peek(KEY, 3)), Some(ms(6)));
    assert_eq!(limiter.check(KEY, 1).remaining, 0);
    assert_eq!(limiter.check(KEY, 11).outcome, Outcome::Never);
    clock.advance(ms(3));
    // There are enough for all, but the head has not been polled yet.
    assert!(!limiter.admits(KEY, 1));
    assert_eq!(denied(&limiter.check(KEY, 1)), Some(ms(1)));
    settle(std::slice::from_mut(&mut waiter), &clock);
    assert!(end(&waiter).is_allowed());
    clock.advance(ms(1));
    assert!(limiter.admits(KEY, 1));
}

/// A future that is not polled cannot leave by itself; it blocks others until a second after its deadline.
fn a_future_that_is_kept_but_not_polled_blocks_no_one_for_ever(case: &Case<'_, dyn InMemory>) {
    let (limiter, clock) = empty(case, 10);
    let mut sleeper = Task::begun(limiter.acquire(KEY, 1, ms(5)), &clock);
    let mut tasks = vec![Task::begun(limiter.acquire(KEY, 1, Duration::from_secs(60)), &clock)];
    clock.advance(ms(5));
    assert!(sleeper.is_woken());
    run_until(&mut tasks, &clock, clock.now().plus(us(999_999)));
    assert!(!tasks[0].is_over());
    run_until(&mut tasks, &clock, clock.now().plus(us(1)));
    assert!(end(&tasks[0]).is_allowed());
    // Its place is gone; it continues like a new request, which is too late.
    sleeper.poll(&clock);
    assert!(end(&sleeper).is_allowed(), "no caller waits, and units are there");
}

fn a_timer_that_rings_late_costs_nobody_what_is_there(case: &Case<'_, dyn InMemory>) {
    let (limiter, clock) = empty(case, 10);
    let mut tasks = vec![Task::begun(limiter.acquire(KEY, 3, ms(3)), &clock)];
    clock.advance(ms(4));
    settle(&mut tasks, &clock);
    assert!(end(&tasks[0]).is_allowed());
}

fn a_future_that_was_never_polled_never_arrived(case: &Case<'_, dyn InMemory>) {
    let (limiter, clock) = empty(case, 10);
    let unpolled = limiter.acquire(KEY, 10, Duration::from_secs(60));
    assert_eq!(limiter.waiting(KEY), 0);
    clock.advance(ms(1));
    assert!(limiter.admits(KEY, 1));
    drop(unpolled);
    assert_eq!(limiter.peek(KEY, 1).remaining, 0);
}

/// "A delay once returned stays": the next waiter does not move up, and no slot is used twice.
fn work_that_is_cancelled_while_a_queue_holds_it_keeps_its_slot(case: &Case<'_, dyn InMemory>) {
    let (limiter, clock) = queue(case, 5);
    let mut tasks: Vec<_> =
        (0..3).map(|_| Task::begun(limiter.acquire(KEY, 1, ms(9)), &clock)).collect();
    assert_eq!(limiter.waiting(KEY), 0, "all three are admitted");
    let began = clock.now();
    tasks[1].cancel();
    run(&mut tasks, &clock);
    assert_eq!(tasks[2].end.unwrap().0.duration_since(began), ms(2));
}
