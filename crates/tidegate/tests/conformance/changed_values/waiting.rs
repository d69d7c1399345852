//! Values that change while requests wait for them: by a clock that is moved, and at every gate, where policies are replaced
//! and waiters ask again immediately, in their order.

use std::time::Duration;

use tidegate::{
    AlgorithmKind, Answer, Clock, Decision, Descriptor, ManualClock, OnExcess, Outcome, Request,
    RuleSpec, Spec,
};

use crate::kit::{every_gate_of_one_step, kit};
use crate::subjects::gates::{AnyGate, Entries, ask, seen};
use crate::subjects::{Case, InMemory, Store, Waiting};
use crate::tasks::{Task, bucket, ms, run, settle};
use crate::waiting::{WEEK, until};

kit! {
    InMemory [limiter keyed_packed keyed_sharded planned gate_packed gate_sharded] [TokenBucket] =>
    a_limit_that_rises_wakes_the_head_and_those_behind_it_follow,
    who_can_not_be_in_time_after_a_change_is_refused_when_it_learns_of_it,
    all_who_wait_are_woken_whatever_their_key,
}

// A gate does not report an unlimited rule.
kit! {
    InMemory [limiter keyed_packed keyed_sharded planned] [TokenBucket] =>
    all_who_wait_go_on_where_there_is_no_limit,
}

kit! {
    InMemory [supplied] [TokenBucket] =>
    values_of_a_call_hold_for_as_long_as_it_waits,
    who_waits_under_values_of_its_own_is_woken_when_the_old_ones_have_let_go,
}

every_gate_of_one_step! {
    who_waits_for_a_rule_that_is_removed_goes_on,
    waiters_go_on_under_the_new_values_in_the_order_of_their_arrival,
    who_waits_goes_on_where_its_rule_is_unlimited,
    a_rule_that_was_added_since_refuses_who_waits_where_it_has_no_space,
    who_waits_keeps_its_place_wherever_its_rule_stands,
}

const KEY: &str = "ada";
const ADA: Entries<'_> = &[("user", "ada")];

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

/// A rule at which requests may wait.
fn patient(case: &Case<'_, dyn Store>, name: &str, limit: u64) -> RuleSpec {
    let wait = OnExcess::Wait { wait: WEEK, max_waiters: 9 };
    case.rule(name, limit).key(["user"]).on_excess(wait)
}

fn waiting(gate: &dyn AnyGate) -> usize {
    ask(&[(ADA, 1)], |request| gate.waiting(request))
}

/// Adds one more waiter to the queue.
fn waiter<'g>(gate: &'g dyn AnyGate, descriptors: &'g [Descriptor<'g>]) -> Task<'g, Answer<'g>> {
    let before = waiting(gate);
    let request = Request::new("default", descriptors);
    let mut tasks = [Task::new(gate.acquire(request))];
    tasks[0].poll_now();
    until(&mut tasks, |tasks| waiting(gate) > before || tasks[0].is_over());
    let [task] = tasks;
    assert!(!task.is_over(), "it does not wait: {:?}", task.end);
    task
}

fn of(cost: u64) -> [Descriptor<'static>; 1] {
    [Descriptor::new(ADA).cost(cost)]
}

/// Takes all units that the first of these rules admits.
fn full<'g>(case: &Case<'g, dyn Store>, rules: Vec<RuleSpec>, cost: u64) -> Box<dyn AnyGate + 'g> {
    let gate = case.of_one_process(rules);
    assert!(ask(&[(ADA, cost)], |request| gate.check(request).is_allowed()));
    gate
}

fn end<'t, 'g>(task: &'t Task<'_, Answer<'g>>) -> &'t Answer<'g> {
    &task.end.as_ref().expect("it is over").1
}

fn are_over<'g>(tasks: &mut [Task<'g, Answer<'g>>]) {
    until(tasks, |tasks| tasks.iter().all(Task::is_over));
}

fn is_a_queue(case: &Case<'_, dyn Store>) -> bool {
    // A queue holds what it admits for days, until its slot.
    case.algorithm.is_queue()
}

fn who_waits_for_a_rule_that_is_removed_goes_on(case: &Case<'_, dyn Store>) {
    let all = || RuleSpec::new("all", Spec::new(AlgorithmKind::SlidingLog, 100, WEEK));
    let gate = full(case, vec![patient(case, "small", 10), all()], 10);
    let (four, eight) = (of(4), of(8));
    let mut tasks = [waiter(&*gate, &four), waiter(&*gate, &four), waiter(&*gate, &eight)];
    gate.replace(vec![all()]);
    are_over(&mut tasks);
    for task in &tasks {
        let answer = end(task);
        let names: Vec<_> =
            answer.matched().iter().map(|one| one.rule().name().to_owned()).collect();
        assert!(answer.is_allowed() && names == ["all"], "{answer:?}");
    }
    assert_eq!((seen(&*gate, ADA), waiting(&*gate)), (vec![100 - 10 - 16], 0));
}

fn waiters_go_on_under_the_new_values_in_the_order_of_their_arrival(case: &Case<'_, dyn Store>) {
    let gate = full(case, vec![patient(case, "r", 10)], 10);
    let (four, five) = (of(4), of(5));
    let mut tasks = [waiter(&*gate, &four), waiter(&*gate, &five)];
    gate.replace(vec![patient(case, "r", 16)]);
    until(&mut tasks, |tasks| waiting(&*gate) == 1 || tasks[0].is_over());
    if !is_a_queue(case) {
        until(&mut tasks, |tasks| tasks[0].is_over());
        assert!(end(&tasks[0]).is_allowed() && !tasks[1].is_over());
        assert_eq!(waiting(&*gate), 1);
    }
    gate.amend("r", patient(case, "r", 20).spec.into());
    until(&mut tasks, |_| waiting(&*gate) == 0);
    if !is_a_queue(case) {
        are_over(&mut tasks);
        assert!(end(&tasks[1]).is_allowed());
        assert_eq!(seen(&*gate, ADA), [1]);
    }
}

fn who_waits_goes_on_where_its_rule_is_unlimited(case: &Case<'_, dyn Store>) {
    let gate = full(case, vec![patient(case, "r", 10)], 10);
    let (four, five) = (of(4), of(5));
    let mut tasks = [waiter(&*gate, &four), waiter(&*gate, &five)];
    gate.amend("r", Spec::unlimited(case.algorithm).into());
    are_over(&mut tasks);
    for task in &tasks {
        assert!(end(task).is_allowed() && end(task).matched().is_empty(), "{:?}", end(task));
    }
    gate.amend("r", patient(case, "r", 20).spec.into());
    assert_eq!(seen(&*gate, ADA), [10], "none was taken");
}

fn a_rule_that_was_added_since_refuses_who_waits_where_it_has_no_space(case: &Case<'_, dyn Store>) {
    let gate = full(case, vec![patient(case, "r", 10)], 10);
    let four = of(4);
    let mut tasks = [waiter(&*gate, &four)];
    gate.replace(vec![patient(case, "r", 20), case.rule("tiny", 3).key(["user"])]);
    are_over(&mut tasks);
    let answer = end(&tasks[0]);
    assert!(
        !answer.is_allowed() && answer.is_never(),
        "four do not ever fit into three: {answer:?}"
    );
    assert_eq!((seen(&*gate, ADA), waiting(&*gate)), (vec![10, 3], 0));
}

fn who_waits_keeps_its_place_wherever_its_rule_stands(case: &Case<'_, dyn Store>) {
    let gate = full(case, vec![patient(case, "r", 10)], 10);
    let (one, three) = (of(1), of(3));
    let mut tasks = [waiter(&*gate, &three), waiter(&*gate, &one)];
    let new = || case.rule("new", 50).key(["user"]);
    gate.replace(vec![new(), patient(case, "r", 10)]);
    assert_eq!(waiting(&*gate), 2);
    ask(&[(ADA, 1)], |request| drop(gate.refund(request)));
    // One unit is there, but the waiter for three came first; a request that does not wait comes after both.
    assert!(!ask(&[(ADA, 1)], |request| gate.check(request).is_allowed()));
    ask(&[(ADA, 2)], |request| drop(gate.refund(request)));
    until(&mut tasks, |_| waiting(&*gate) == 1);
    ask(&[(ADA, 1)], |request| drop(gate.refund(request)));
    until(&mut tasks, |_| waiting(&*gate) == 0);
    if !is_a_queue(case) {
        are_over(&mut tasks);
        for task in &tasks {
            let answer = end(task);
            assert!(answer.is_allowed() && answer.matched().len() == 2, "{answer:?}");
        }
    }
}
