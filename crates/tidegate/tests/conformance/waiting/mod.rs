//! Waiting in turn, over every store: order, immediate refusals, leaving, and wake-ups.
//!
//! Nothing here needs time to pass: units come from refunds and resets, so that stores can be waited for as well.

mod in_time;
mod walk;

use std::time::Duration;

use tidegate::{AlgorithmKind, Decision, ManualClock, Outcome};

use crate::kit::{every_subject, every_subject_in_memory};
use crate::subjects::{Case, InMemory, Kind, Waiting, per_day};
use crate::tasks::Task;

every_subject! {
    what_fits_does_not_wait,
    who_came_first_is_served_first_and_nobody_overtakes,
    what_can_not_be_in_time_is_refused_at_once,
    a_full_line_refuses_at_once,
    what_can_never_fit_and_what_costs_nothing_does_not_wait,
    a_waiter_that_leaves_gives_its_place_to_the_next,
    a_reset_wakes_who_waits,
}

// Over a store a peek ignores waiters, because the queue belongs to one process.
every_subject_in_memory! { a_peek_counts_the_waiters }

/// The number of looks for a store's answer, a millisecond apart: longer than any answer takes.
const LOOKS: u32 = 30_000;
pub(crate) const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// Polls woken tasks until `happened` returns true.
pub(crate) fn until<'t, T>(tasks: &mut [Task<'t, T>], happened: impl Fn(&[Task<'t, T>]) -> bool) {
    let mut looks = 0;
    while !happened(tasks) {
        if let Some(task) = tasks.iter_mut().find(|task| task.is_woken()) {
            task.poll_now();
            continue;
        }
        assert!(looks < LOOKS, "nothing of the kind has happened");
        looks += 1;
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn acquire<'s>(
    subject: &'s dyn Waiting,
    key: &'s str,
    cost: u64,
    wait: Duration,
) -> Task<'s, Decision> {
    let mut task = Task::new(subject.acquire(key, cost, wait));
    task.poll_now();
    task
}

/// Adds one more waiter to the queue.
fn waiter<'s>(subject: &'s dyn Waiting, key: &'s str, cost: u64) -> Task<'s, Decision> {
    let before = subject.waiting(key);
    let mut tasks = [acquire(subject, key, cost, WEEK)];
    until(&mut tasks, |tasks| subject.waiting(key) > before || tasks[0].is_over());
    let [task] = tasks;
    assert!(!task.is_over(), "it does not wait: {:?}", task.end);
    task
}

/// The answer to a request that does not wait.
fn at_once(subject: &dyn Waiting, key: &str, cost: u64, wait: Duration) -> Decision {
    let before = subject.waiting(key);
    let mut tasks = [acquire(subject, key, cost, wait)];
    until(&mut tasks, |tasks| tasks[0].is_over());
    assert_eq!(subject.waiting(key), before);
    end(&tasks[0])
}

fn end(task: &Task<'_, Decision>) -> Decision {
    task.end.as_ref().expect("it is over").1
}

/// Asserts that all were admitted; a queue may still hold them, each until its slot.
fn are_admitted(algorithm: AlgorithmKind, tasks: &mut [Task<'_, Decision>]) {
    if algorithm != AlgorithmKind::LeakyQueue {
        until(tasks, |tasks| tasks.iter().all(Task::is_over));
    }
    assert!(tasks.iter().filter(|task| task.is_over()).all(|task| end(task).is_allowed()));
}

fn what_fits_does_not_wait(case: &Case<'_, dyn Kind>) {
    let subject = case.in_turn(3, 9);
    for key in subject.keys() {
        let decision = at_once(&*subject, key, 2, Duration::ZERO);
        assert!(decision.is_allowed() || !decision.delay().is_zero(), "{decision:?}");
    }
}

fn who_came_first_is_served_first_and_nobody_overtakes(case: &Case<'_, dyn Kind>) {
    let subject = case.in_turn(3, 9);
    let (key, others) = subject.keys().split_first().unwrap();
    assert!(subject.check(key, 3).is_allowed());
    let mut tasks = [waiter(&*subject, key, 3), waiter(&*subject, key, 1)];
    let _ = subject.refund(key, 2);
    // Two units are there, but the waiter for three came first.
    let refused = subject.check(key, 1);
    assert!(!refused.is_allowed() && refused.retry_after().unwrap() > Duration::ZERO);
    assert_eq!(refused.remaining, 0);
    assert!(!subject.admits(key, 1));
    assert!(subject.reserve(key, 1).is_err() && subject.reserve(key, 0).is_ok());
    assert_eq!(subject.check(key, 4).outcome, Outcome::Never);
    assert_eq!(subject.waiting(key), 2);
    for other in others {
        assert_eq!(subject.waiting(other), 0);
        assert!(subject.admits(other, 1), "another limiter has another line");
    }
    for waiting in [1, 0] {
        let _ = subject.refund(key, 1);
        until(&mut tasks, |_| subject.waiting(key) == waiting);
    }
    are_admitted(case.algorithm, &mut tasks);
    assert_eq!(subject.available(key), 0);
}

fn what_can_not_be_in_time_is_refused_at_once(case: &Case<'_, dyn Kind>) {
    let subject = case.in_turn(3, 9);
    let key = subject.keys()[0];
    assert!(subject.check(key, 3).is_allowed());
    // A daily window of a store ends soon in the last hour of a day.
    let second = Duration::from_secs(1);
    let alone = at_once(&*subject, key, 3, second);
    assert!(alone.retry_after().unwrap() > second, "{alone:?}");
    let first = waiter(&*subject, key, 3);
    let behind = at_once(&*subject, key, 3, second);
    assert!(behind.retry_after().unwrap() > alone.retry_after().unwrap(), "waiters count");
    assert_eq!(behind.remaining, 0);
    drop(first);
}

fn a_full_line_refuses_at_once(case: &Case<'_, dyn Kind>) {
    let subject = case.in_turn(1, 1);
    let key = subject.keys()[0];
    assert!(at_once(&*subject, key, 1, WEEK).is_allowed());
    let first = waiter(&*subject, key, 1);
    let refused = at_once(&*subject, key, 1, WEEK);
    assert!(!refused.is_allowed() && refused.retry_after().is_some(), "{refused:?}");
    drop(first);
    drop(waiter(&*subject, key, 1));
    assert_eq!(subject.waiting(key), 0);
}

fn what_can_never_fit_and_what_costs_nothing_does_not_wait(case: &Case<'_, dyn Kind>) {
    let subject = case.in_turn(2, 9);
    let key = subject.keys()[0];
    assert!(subject.check(key, 2).is_allowed());
    let first = waiter(&*subject, key, 1);
    for cost in [3, u64::MAX] {
        assert_eq!(at_once(&*subject, key, cost, Duration::MAX).outcome, Outcome::Never);
    }
    assert!(at_once(&*subject, key, 0, Duration::ZERO).is_allowed());
    assert!(subject.admits(key, 0) && subject.check(key, 0).is_allowed());
    drop(first);
    let closed = case.in_turn(0, 9);
    assert_eq!(at_once(&*closed, key, 1, Duration::MAX).outcome, Outcome::Never);
}

/// In a released limiter, a cancelled waiter kept its place; in a released semaphore, later waiters were not woken.
fn a_waiter_that_leaves_gives_its_place_to_the_next(case: &Case<'_, dyn Kind>) {
    let subject = case.in_turn(4, 9);
    let key = subject.keys()[0];
    assert!(subject.check(key, 4).is_allowed());
    let mut tasks = [4, 2, 1, 1].map(|cost| waiter(&*subject, key, cost));
    let _ = subject.refund(key, 2);
    tasks[1].cancel();
    assert_eq!(subject.waiting(key), 3);
    tasks[0].cancel();
    until(&mut tasks, |_| subject.waiting(key) == 0);
    are_admitted(case.algorithm, &mut tasks[2..]);
    assert_eq!(subject.available(key), 0);
}

fn a_reset_wakes_who_waits(case: &Case<'_, dyn Kind>) {
    let subject = case.in_turn(2, 9);
    let keys = &subject.keys()[..subject.keys().len().min(2)];
    let mut tasks = Vec::new();
    for key in keys {
        assert!(subject.check(key, 2).is_allowed());
        tasks.push(waiter(&*subject, key, 2));
    }
    subject.reset(keys[0]);
    until(&mut tasks, |_| subject.waiting(keys[0]) == 0);
    are_admitted(case.algorithm, &mut tasks[..1]);
    assert!(tasks[1..].iter().all(|task| !task.is_over()), "no other key is reset");
}

fn a_peek_counts_the_waiters(case: &Case<'_, dyn InMemory>) {
    let clock = ManualClock::new();
    let subject = case.by(&clock, per_day(case.algorithm, 3));
    let key = subject.keys()[0];
    assert!(subject.check(key, 3).is_allowed());
    let first = waiter(&*subject, key, 3);
    let _ = subject.refund(key, 2);
    let looked = subject.peek(key, 1);
    assert_eq!((looked.outcome, looked.remaining), (subject.check(key, 1).outcome, 0));
    assert!(!looked.is_allowed());
    drop(first);
    assert!(subject.peek(key, 1).is_allowed());
}
