//! Values that change while requests wait for them, with a clock that is moved.

use std::time::Duration;

use tidegate::{AlgorithmKind, Clock, Decision, ManualClock, Outcome, Spec};

use crate::kit::kit;
use crate::subjects::{Case, InMemory, Waiting};
use crate::tasks::{Task, bucket, ms, run, settle};

kit! {
    InMemory [limiter keyed_packed keyed_sharded planned gate_packed gate_sharded] TokenBucket =>
    a_limit_that_rises_wakes_the_head_and_those_behind_it_follow,
    who_can_not_be_in_time_after_a_change_is_refused_when_it_learns_of_it,
    all_who_wait_are_woken_whatever_their_key,
}

// A gate does not report an unlimited rule.
kit! {
    InMemory [limiter keyed_packed keyed_sharded planned] TokenBucket =>
    all_who_wait_go_on_where_there_is_no_limit,
}

kit! {
    InMemory [supplied] TokenBucket =>
    values_of_a_call_hold_for_as_long_as_it_waits,
    who_waits_under_values_of_its_own_is_woken_when_the_old_ones_have_let_go,
}

const KEY: &str = "ada";

/// An empty bucket of ten tokens, which gets one token each millisecond.
fn empty<'k>(case: &Case<'k, dyn InMemory>) -> (Box<dyn Waiting + 'k>, ManualClock) {
    let clock = ManualClock::new();
    let subject = case.by(&clock, bucket(10));
    assert!(subject.admits(KEY, 10));
    (subject, clock)
}

fn begun<'s>(subject: &'s dyn Waiting, cost: u64, clock: &ManualClock) -> Task<'s, Decision> {
    Task::begun(subject.acquire(KEY, cost, ms(100)), clock)
}

fn is_admitted(task: &Task<'_, Decision>) -> Option<bool> {
    task.end.as_ref().map(|(_, decision)| decision.is_allowed())
}

fn a_limit_that_rises_wakes_the_head_and_those_behind_it_follow(case: &Case<'_, dyn InMemory>) {
    let (subject, clock) = empty(case);
    let began = clock.now();
    let mut tasks = [4, 4, 3].map(|cost| begun(&*subject, cost, &clock));
    assert!(tasks.iter().all(|task| !task.is_over()));
    // Ten more in the same time, and what was used stays used.
    subject.change(Spec::new(AlgorithmKind::TokenBucket, 20, ms(10)));
    assert_eq!(tasks.each_ref().map(Task::wakes), [1, 0, 0]);
    settle(&mut tasks, &clock);
    assert_eq!(tasks.each_ref().map(is_admitted), [Some(true), Some(true), None]);
    run(&mut tasks, &clock);
    // Two are left and two flow in each millisecond: the third has three after half of one.
    assert_eq!(is_admitted(&tasks[2]), Some(true));
    assert_eq!(clock.now().duration_since(began), Duration::from_micros(500));
}

fn who_can_not_be_in_time_after_a_change_is_refused_when_it_learns_of_it(
    case: &Case<'_, dyn InMemory>,
) {
    for (changed, outcome) in [
        (
            Spec::new(AlgorithmKind::TokenBucket, 10, ms(1_000)),
            Outcome::Deny { retry_after: ms(400).into() },
        ),
        (bucket(2), Outcome::Never),
    ] {
        let (subject, clock) = empty(case);
        let began = clock.now();
        let mut tasks = [begun(&*subject, 4, &clock)];
        subject.change(changed);
        settle(&mut tasks, &clock);
        let (at, decision) = tasks[0].end.as_ref().expect("it learns of the change at once");
        assert_eq!((*at, decision.outcome), (began, outcome));
        assert_eq!(subject.waiting(KEY), 0);
    }
}

fn all_who_wait_are_woken_whatever_their_key(case: &Case<'_, dyn InMemory>) {
    let (subject, clock) = empty(case);
    let mut tasks: Vec<_> = Vec::new();
    for key in subject.keys() {
        let _ = subject.check(key, 10);
        tasks.push(Task::begun(subject.acquire(key, 4, ms(100)), &clock));
    }
    subject.change(bucket(20));
    settle(&mut tasks, &clock);
    assert!(tasks.iter().all(|task| is_admitted(task) == Some(true)));
}

fn all_who_wait_go_on_where_there_is_no_limit(case: &Case<'_, dyn InMemory>) {
    let (subject, clock) = empty(case);
    let began = clock.now();
    let mut tasks = [4, 4, 3, 10].map(|cost| begun(&*subject, cost, &clock));
    subject.change(Spec::unlimited(AlgorithmKind::TokenBucket));
    // A request that comes now has no request before it, although the waiters have not left yet.
    assert!(subject.admits(KEY, 5));
    settle(&mut tasks, &clock);
    assert!(tasks.iter().all(|task| is_admitted(task) == Some(true)));
    assert_eq!((clock.now(), subject.waiting(KEY)), (began, 0));
    subject.change(bucket(10));
    assert_eq!(subject.available(KEY), 0, "none was taken, and none came back");
    let mut again = [begun(&*subject, 3, &clock)];
    assert!(!again[0].is_over(), "a request may wait for what was unlimited");
    run(&mut again, &clock);
    assert_eq!(is_admitted(&again[0]), Some(true));
}

fn values_of_a_call_hold_for_as_long_as_it_waits(case: &Case<'_, dyn InMemory>) {
    let (subject, clock) = empty(case);
    let began = clock.now();
    let mut tasks = [begun(&*subject, 2, &clock)];
    subject.change(bucket(1));
    run(&mut tasks, &clock);
    assert_eq!(tasks[0].end.as_ref().unwrap().0, began.plus(ms(2)));
}

/// Waiting puts nothing in force: usage leaves at the pace of the old values.
fn who_waits_under_values_of_its_own_is_woken_when_the_old_ones_have_let_go(
    case: &Case<'_, dyn InMemory>,
) {
    let log = |millis| Spec::new(AlgorithmKind::SlidingLog, 2, ms(millis));
    for (old, new) in [(50, 5), (5, 50)] {
        let clock = ManualClock::new();
        let subject = case.by(&clock, log(old));
        assert!(subject.admits(KEY, 2));
        let began = clock.now();
        subject.change(log(new));
        let mut tasks = [begun(&*subject, 1, &clock)];
        assert_eq!(subject.check(KEY, 1).retry_after(), Some(ms(old)));
        run(&mut tasks, &clock);
        let (at, decision) = tasks[0].end.as_ref().unwrap();
        assert_eq!((*at, decision.is_allowed()), (began.plus(ms(old)), true));
    }
}
