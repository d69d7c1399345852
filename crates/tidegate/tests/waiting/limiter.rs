//! Waiting for a limiter: order, deadlines, leaving, and who wakes whom.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use crate::tasks::{Task, bucket, ms, run, run_until, settle, us};
use tidegate::{
    AlgorithmKind, Clock, Decision, KeyedLimiter, Limiter, ManualClock, Micros, Outcome, Spec,
};

/// A bucket of `limit` tokens that is empty, one token to come each millisecond.
fn empty(limit: u64) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let limiter = Limiter::with_clock(bucket(limit), clock.clone()).unwrap();
    assert!(limiter.admits(limit));
    (limiter, clock)
}

fn denied(decision: &Decision) -> Option<Micros> {
    assert!(!decision.is_allowed());
    decision.retry_after()
}

fn end<T: Copy>(task: &Task<'_, T>) -> T {
    task.end.as_ref().expect("it is over").1
}

#[test]
fn what_fits_does_not_wait() {
    let clock = ManualClock::new();
    let limiter = Limiter::with_clock(bucket(3), clock.clone()).unwrap();
    let task = Task::begun(limiter.acquire(2, Micros::ZERO), &clock);
    assert_eq!((task.polls, end(&task).remaining), (1, 1));
    assert_eq!((limiter.waiting(), clock.sleepers()), (0, 0));
}

#[test]
fn waiters_are_admitted_in_order_at_the_instants_their_units_are_there() {
    let (limiter, clock) = empty(10);
    let began = clock.now();
    let costs = [3, 1, 5, 1];
    let mut tasks: Vec<_> =
        costs.iter().map(|cost| Task::begun(limiter.acquire(*cost, ms(100)), &clock)).collect();
    assert_eq!(limiter.waiting(), 4);
    run(&mut tasks, &clock);
    let ends: Vec<_> = tasks.iter().map(|task| task.end.unwrap().0.since(began)).collect();
    assert_eq!(ends, [ms(3), ms(4), ms(9), ms(10)]);
    assert!(tasks.iter().all(|task| end(task).is_allowed()));
    assert_eq!(limiter.waiting(), 0);
}

/// Each of them is woken once to be head, and once by its timer; the first is the head from the start.
#[test]
fn nobody_is_woken_twice() {
    let (limiter, clock) = empty(10);
    let mut tasks: Vec<_> =
        (0..5).map(|_| Task::begun(limiter.acquire(1, ms(100)), &clock)).collect();
    run(&mut tasks, &clock);
    let wakes: Vec<_> = tasks.iter().map(Task::wakes).collect();
    assert_eq!(wakes, [1, 2, 2, 2, 2]);
    assert!(tasks.iter().all(|task| task.polls == task.wakes() + 1));
}

#[test]
fn a_wait_that_can_only_end_after_its_deadline_is_refused_at_once_with_its_time() {
    let (limiter, clock) = empty(10);
    let hopeless = Task::begun(limiter.acquire(4, us(3_999)), &clock);
    assert_eq!(denied(&end(&hopeless)), Some(ms(4)));
    let mut first = Task::begun(limiter.acquire(4, ms(4)), &clock);
    // The one that waits is counted in.
    let second = Task::begun(limiter.acquire(2, us(5_999)), &clock);
    assert_eq!(denied(&end(&second)), Some(ms(6)));
    assert_eq!(end(&second).remaining, 0);
    let third = Task::begun(limiter.acquire(2, ms(6)), &clock);
    assert!(!third.is_over());
    drop(third);
    run(std::slice::from_mut(&mut first), &clock);
    assert!(end(&first).is_allowed());
}

#[test]
fn no_one_overtakes_not_even_a_request_that_would_not_have_waited() {
    let clock = ManualClock::new();
    let limiter = Limiter::with_clock(bucket(10), clock.clone()).unwrap();
    assert!(limiter.admits(5));
    let mut waiter = Task::begun(limiter.acquire(8, ms(10)), &clock);
    // Five are there; eight are waited for, and come in 3 ms.
    assert!(!limiter.admits(1));
    assert_eq!(denied(&limiter.check(1)), Some(ms(4)));
    assert_eq!(denied(&limiter.peek(3)), Some(ms(6)));
    assert_eq!(denied(&limiter.check(1)), Some(ms(4)));
    assert_eq!(limiter.check(1).remaining, 0);
    assert_eq!(limiter.check(11).outcome, Outcome::Never);
    clock.advance(ms(3));
    // There are enough for all, but the head has not been polled yet.
    assert!(!limiter.admits(1));
    assert_eq!(denied(&limiter.check(1)), Some(ms(1)));
    settle(std::slice::from_mut(&mut waiter), &clock);
    assert!(end(&waiter).is_allowed());
    clock.advance(ms(1));
    assert!(limiter.admits(1));
}

#[test]
fn a_cost_of_nothing_never_waits() {
    let (limiter, clock) = empty(10);
    let _waiter = Task::begun(limiter.acquire(1, ms(10)), &clock);
    let nothing = Task::begun(limiter.acquire(0, Micros::ZERO), &clock);
    assert!(end(&nothing).is_allowed());
    assert!(limiter.admits(0) && limiter.check(0).is_allowed());
}

#[test]
fn what_can_not_ever_fit_is_refused_at_once() {
    let (limiter, clock) = empty(10);
    for _ in 0..2 {
        let never = Task::begun(limiter.acquire(11, Micros::MAX), &clock);
        assert_eq!(end(&never).outcome, Outcome::Never);
    }
    let closed = Spec::new(AlgorithmKind::SlidingLog, 0, ms(1));
    let limiter = Limiter::with_clock(closed, clock.clone()).unwrap();
    let never = Task::begun(limiter.acquire(1, Micros::MAX), &clock);
    assert_eq!(end(&never).outcome, Outcome::Never);
}

#[test]
fn an_unlimited_limiter_makes_nobody_wait() {
    let clock = ManualClock::new();
    let spec = Spec::unlimited(AlgorithmKind::TokenBucket);
    let limiter = Limiter::with_clock(spec, clock.clone()).unwrap();
    let task = Task::begun(limiter.acquire(u64::MAX, Micros::ZERO), &clock);
    assert_eq!(end(&task).limit, u64::MAX);
    assert!(limiter.acquire_blocking(u64::MAX, Micros::ZERO).is_allowed());
}

/// In a released limiter, a waiter that timed out or was cancelled kept its place, and everyone behind
/// it waited longer.
#[test]
fn a_cancelled_waiter_leaves_no_trace_and_those_behind_move_up() {
    let (limiter, clock) = empty(10);
    let began = clock.now();
    let mut tasks: Vec<_> = [2, 6, 1]
        .map(|cost| Task::begun(limiter.acquire(cost, ms(100)), &clock))
        .into_iter()
        .collect();
    assert_eq!(denied(&limiter.check(1)), Some(ms(10)));
    tasks[1].cancel();
    assert_eq!(denied(&limiter.check(1)), Some(ms(4)));
    run(&mut tasks, &clock);
    let ends = [0, 2].map(|task: usize| tasks[task].end.unwrap().0.since(began));
    assert_eq!(ends, [ms(2), ms(3)]);
}

/// In a released semaphore, nobody woke the waiters behind a head that went away.
#[test]
fn a_cancelled_head_wakes_the_next() {
    let (limiter, clock) = empty(10);
    let mut tasks: Vec<_> = [9, 1, 1]
        .map(|cost| Task::begun(limiter.acquire(cost, ms(100)), &clock))
        .into_iter()
        .collect();
    clock.advance(ms(5));
    tasks[0].cancel();
    assert_eq!([tasks[1].wakes(), tasks[2].wakes()], [1, 0]);
    settle(&mut tasks, &clock);
    assert!(end(&tasks[1]).is_allowed() && end(&tasks[2]).is_allowed());
    assert_eq!(limiter.peek(1).remaining, 3);
}

/// Go's limiter gives the units of a cancelled wait back only in part, for they were promised.
#[test]
fn no_unit_is_lost_to_those_who_leave() {
    let (limiter, clock) = empty(10);
    for round in 0..50 {
        let mut tasks: Vec<_> =
            (0..5).map(|_| Task::begun(limiter.acquire(2, ms(100)), &clock)).collect();
        tasks.rotate_left(round % 5);
        drop(tasks);
    }
    assert_eq!((limiter.waiting(), clock.sleepers()), (0, 0));
    clock.advance(ms(10));
    assert_eq!(limiter.peek(1).remaining, 10);
}

#[test]
fn a_refund_and_a_reset_wake_the_head() {
    let (limiter, clock) = empty(10);
    let mut tasks: Vec<_> = [4, 4]
        .map(|cost| Task::begun(limiter.acquire(cost, ms(100)), &clock))
        .into_iter()
        .collect();
    limiter.refund(5);
    assert_eq!([tasks[0].wakes(), tasks[1].wakes()], [1, 0]);
    settle(&mut tasks, &clock);
    assert!(tasks[0].is_over() && !tasks[1].is_over());
    limiter.reset();
    settle(&mut tasks, &clock);
    assert!(end(&tasks[1]).is_allowed());
    assert_eq!(clock.sleepers(), 0);
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
    // And one that can not be in time any more is told so when it learns of it.
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
fn a_full_line_refuses_at_once_with_the_time_it_would_have_taken() {
    let (limiter, clock) = empty(10);
    let limiter = limiter.with_max_waiters(2);
    let _first = Task::begun(limiter.acquire(1, ms(100)), &clock);
    let second = Task::begun(limiter.acquire(1, ms(100)), &clock);
    let third = Task::begun(limiter.acquire(1, ms(100)), &clock);
    assert_eq!(denied(&end(&third)), Some(ms(3)));
    drop(second);
    let fourth = Task::begun(limiter.acquire(1, ms(100)), &clock);
    assert!(!fourth.is_over());
}

/// Who is not polled can not leave by itself; it holds up others until a second after its deadline.
#[test]
fn a_future_that_is_kept_but_not_polled_blocks_no_one_for_ever() {
    let (limiter, clock) = empty(10);
    let mut sleeper = Task::begun(limiter.acquire(1, ms(5)), &clock);
    let mut tasks = vec![Task::begun(limiter.acquire(1, Micros::from_secs(60)), &clock)];
    clock.advance(ms(5));
    assert!(sleeper.is_woken());
    run_until(&mut tasks, &clock, clock.now().plus(us(999_999)));
    assert!(!tasks[0].is_over());
    run_until(&mut tasks, &clock, clock.now().plus(us(1)));
    assert!(end(&tasks[0]).is_allowed());
    // Its place is gone; it goes on as one who comes now, and too late.
    sleeper.poll(&clock);
    assert!(end(&sleeper).is_allowed(), "nobody waits, and units are there");
}

#[test]
fn a_timer_that_rings_late_costs_nobody_what_is_there() {
    let (limiter, clock) = empty(10);
    let mut tasks = vec![Task::begun(limiter.acquire(3, ms(3)), &clock)];
    clock.advance(ms(4));
    settle(&mut tasks, &clock);
    assert!(end(&tasks[0]).is_allowed());
}

#[test]
fn a_future_that_was_never_polled_never_arrived() {
    let (limiter, clock) = empty(10);
    let unpolled = limiter.acquire(10, Micros::from_secs(60));
    assert_eq!(limiter.waiting(), 0);
    clock.advance(ms(1));
    assert!(limiter.admits(1));
    drop(unpolled);
    assert_eq!(limiter.peek(1).remaining, 0);
}

fn queue(places: u64) -> (Limiter<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let mut spec = Spec::new(AlgorithmKind::LeakyQueue, 1, ms(1));
    spec.capacity = Some(places);
    (Limiter::with_clock(spec, clock.clone()).unwrap(), clock)
}

#[test]
fn a_shaping_queue_lets_work_run_when_its_slot_has_come() {
    let (limiter, clock) = queue(2);
    let began = clock.now();
    let mut tasks: Vec<_> =
        (0..6).map(|_| Task::begun(limiter.acquire(1, ms(5)), &clock)).collect();
    run(&mut tasks, &clock);
    let ran: Vec<_> = tasks.iter().map(|task| task.end.unwrap().0.since(began)).collect();
    assert_eq!(ran, [ms(0), ms(1), ms(2), ms(3), ms(4), ms(5)]);
    assert!(tasks.iter().all(|task| end(task).is_allowed() && end(task).delay().is_zero()));
}

#[test]
fn the_time_a_queue_holds_work_is_part_of_the_wait() {
    let (limiter, clock) = queue(5);
    assert!(limiter.admits(3));
    let hopeless = Task::begun(limiter.acquire(1, us(2_999)), &clock);
    assert_eq!(denied(&end(&hopeless)), Some(ms(3)));
    assert_eq!(limiter.check(1).delay(), ms(3), "it took no slot");
}

/// "A delay once told stays": the one behind does not move up, and no slot is used twice.
#[test]
fn work_that_is_cancelled_while_a_queue_holds_it_keeps_its_slot() {
    let (limiter, clock) = queue(5);
    let mut tasks: Vec<_> =
        (0..3).map(|_| Task::begun(limiter.acquire(1, ms(9)), &clock)).collect();
    assert_eq!(limiter.waiting(), 0, "all three are admitted");
    let began = clock.now();
    tasks[1].cancel();
    run(&mut tasks, &clock);
    assert_eq!(tasks[2].end.unwrap().0.since(began), ms(2));
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
    let ends: Vec<_> = tasks.iter().map(|task| task.end.unwrap().0.since(began)).collect();
    assert_eq!(ends, [ms(4), ms(6)]);
    clock.advance(ms(1));
    assert!(limiter.admits("a", 1));
}

#[test]
fn a_refund_wakes_the_head_of_its_key() {
    let clock = ManualClock::new();
    let limiter = KeyedLimiter::with_clock(bucket(10), clock.clone()).unwrap();
    assert!(limiter.admits("a", 10) && limiter.admits("b", 10));
    let mut tasks: Vec<_> = ["a", "b"]
        .map(|key| Task::begun(limiter.acquire(key, 5, ms(100)), &clock))
        .into_iter()
        .collect();
    limiter.refund("b", 5);
    assert_eq!([tasks[0].wakes(), tasks[1].wakes()], [0, 1]);
    settle(&mut tasks, &clock);
    assert!(!tasks[0].is_over() && tasks[1].is_over());
}
