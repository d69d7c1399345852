//! Limits on work in flight: permits, their order, and how they come back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::tasks::{Task, ms, run, settle};
use std::time::Duration;
use tidegate::{Clock, Concurrency, KeyedConcurrency, ManualClock, OnExcess, Permit};

fn limit(limit: u64) -> (Concurrency<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Concurrency::with_clock(limit, clock.clone()), clock)
}

fn permit(task: &mut Task<'_, Option<Permit>>) -> Option<Permit> {
    task.end.as_mut().expect("it is over").1.take()
}

#[test]
fn permits_are_handed_on_in_order_when_they_come_back() {
    let (in_flight, clock) = limit(3);
    let first = in_flight.try_acquire(3);
    let mut tasks: Vec<_> = [2, 1, 1]
        .map(|units| Task::begun(in_flight.acquire(units, ms(100)), &clock))
        .into_iter()
        .collect();
    assert_eq!((in_flight.waiting(), in_flight.available()), (3, 0));
    drop(first);
    assert_eq!(tasks.iter().map(Task::wakes).collect::<Vec<_>>(), [1, 0, 0]);
    assert!(in_flight.try_acquire(1).is_none(), "the head goes first");
    settle(&mut tasks, &clock);
    let held: Vec<_> = tasks[..2].iter_mut().map(permit).collect();
    assert_eq!((in_flight.in_flight(), tasks[2].is_over()), (3, false));
    drop(held);
    settle(&mut tasks, &clock);
    assert!(permit(&mut tasks[2]).is_some());
    assert_eq!((in_flight.in_flight(), in_flight.waiting(), clock.sleepers()), (0, 0, 0));
}

#[test]
fn a_panic_and_a_cancelled_task_give_their_permits_back() {
    let (in_flight, clock) = limit(1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _permit = in_flight.try_acquire(1).unwrap();
        panic!("while it holds a permit");
    }));
    assert!(panicked.is_err());
    let work = async {
        let _permit = in_flight.acquire(1, Duration::ZERO).await;
        std::future::pending::<()>().await;
    };
    let mut task = Task::begun(work, &clock);
    assert_eq!(in_flight.available(), 0);
    task.cancel();
    assert_eq!(in_flight.available(), 1);
}

/// One that was woken for a permit and goes away before it takes it.
#[test]
fn a_waiter_that_leaves_after_it_was_woken_wakes_the_next() {
    let (in_flight, clock) = limit(1);
    let first = in_flight.try_acquire(1);
    let mut tasks: Vec<_> =
        (0..3).map(|_| Task::begun(in_flight.acquire(1, ms(100)), &clock)).collect();
    drop(first);
    tasks[0].cancel();
    assert_eq!(tasks[1].wakes(), 1);
    settle(&mut tasks, &clock);
    assert!(tasks[1].is_over() && !tasks[2].is_over());
    tasks[2].cancel();
    assert_eq!((in_flight.waiting(), in_flight.in_flight()), (0, 1));
}

#[test]
fn a_wait_ends_with_its_deadline_and_those_behind_move_up() {
    let (in_flight, clock) = limit(2);
    let _one = in_flight.try_acquire(1);
    let began = clock.now();
    let mut tasks = vec![
        Task::begun(in_flight.acquire(2, ms(5)), &clock),
        Task::begun(in_flight.acquire(1, ms(50)), &clock),
    ];
    run(&mut tasks, &clock);
    assert!(permit(&mut tasks[0]).is_none());
    let after_deadline = ms(5).as_micros() + 1;
    assert_eq!(tasks[1].end.as_ref().unwrap().0.duration_since(began).as_micros(), after_deadline);
    assert!(permit(&mut tasks[1]).is_some());
}

#[test]
fn what_can_not_be_is_refused_at_once() {
    let (in_flight, clock) = limit(2);
    assert!(permit(&mut Task::begun(in_flight.acquire(3, Duration::MAX), &clock)).is_none());
    let _both = in_flight.try_acquire(2);
    assert!(permit(&mut Task::begun(in_flight.acquire(1, Duration::ZERO), &clock)).is_none());
    let among_one = OnExcess::Wait { wait: ms(1), max_waiters: 1 };
    let _waits = Task::begun(in_flight.acquire(1, among_one), &clock);
    assert!(permit(&mut Task::begun(in_flight.acquire(1, among_one), &clock)).is_none());
    assert!(in_flight.try_acquire(0).is_some_and(|permit| permit.units() == 0));
}

#[test]
fn a_lower_limit_lets_nothing_in_until_enough_came_back_and_a_higher_one_wakes() {
    let (in_flight, clock) = limit(4);
    let mut held: Vec<_> = (0..4).map(|_| in_flight.try_acquire(1)).collect();
    in_flight.set_limit(2);
    assert_eq!((in_flight.in_flight(), in_flight.available()), (4, 0));
    let mut tasks: Vec<_> = [1, 1]
        .map(|units| Task::begun(in_flight.acquire(units, ms(100)), &clock))
        .into_iter()
        .collect();
    held.truncate(2);
    settle(&mut tasks, &clock);
    assert!(!tasks[0].is_over(), "two are out of two");
    in_flight.set_limit(4);
    settle(&mut tasks, &clock);
    assert!(tasks.iter().all(Task::is_over));
    assert_eq!(in_flight.in_flight(), 4);
}

#[test]
fn clones_share_the_limit() {
    let (in_flight, _) = limit(1);
    let clone = in_flight.clone();
    let _permit = in_flight.try_acquire(1);
    assert!(clone.try_acquire(1).is_none());
}

#[test]
fn each_key_has_a_limit_and_a_line_of_its_own_and_leaves_nothing_behind() {
    let clock = ManualClock::new();
    let in_flight = KeyedConcurrency::with_clock(1, clock.clone());
    let (a, b) = (in_flight.try_acquire("a", 1), in_flight.try_acquire("b", 1));
    assert_eq!(in_flight.keys(), 2);
    let mut tasks = vec![Task::begun(in_flight.acquire("a", 1, ms(9)), &clock)];
    drop(b);
    assert_eq!((tasks[0].wakes(), in_flight.keys()), (0, 1));
    drop(a);
    settle(&mut tasks, &clock);
    assert_eq!((in_flight.in_flight("a"), in_flight.available("b")), (1, 1));
    tasks.clear();
    assert_eq!((in_flight.keys(), in_flight.waiting("a")), (0, 0));
}
