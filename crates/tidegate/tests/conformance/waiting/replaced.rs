//! Policies that are replaced while requests wait: waiters ask again immediately, in their order.

use std::time::Duration;
use tidegate::{AlgorithmKind, Answer, Descriptor, OnExcess, Request, RuleSpec, Spec};

use super::until;
use crate::kit::every_gate_of_one_step;
use crate::subjects::gates::{AnyGate, Entries, ask, seen};
use crate::subjects::{Case, Store};
use crate::tasks::Task;

every_gate_of_one_step! {
    who_waits_for_a_rule_that_is_removed_goes_on,
    waiters_go_on_under_the_new_values_in_the_order_of_their_arrival,
    who_waits_goes_on_where_its_rule_is_unlimited,
    a_rule_that_was_added_since_refuses_who_waits_where_it_has_no_space,
    who_waits_keeps_its_place_wherever_its_rule_stands,
}

const ADA: Entries<'_> = &[("user", "ada")];
const WEEK: Duration = Duration::from_secs(7 * 86_400);

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
