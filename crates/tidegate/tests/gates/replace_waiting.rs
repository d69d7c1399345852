//! Policies that are replaced while requests wait at a gate: waiters ask again, in their order.

use crate::tasks::{Task, bucket, ms, run, settle};
use tidegate::{Answer, Clock as _, Descriptor, Gate, ManualClock, OnExcess, Policy, RuleSpec};

const WAIT: OnExcess = OnExcess::Wait { wait: ms(100), max_waiters: 100 };

/// A rule for each user of so many tokens, one each millisecond, that lets requests wait.
fn each(name: &str, tokens: u64) -> RuleSpec {
    RuleSpec::new(name, bucket(tokens)).key(["user"]).on_excess(WAIT)
}

fn policy(rules: impl IntoIterator<Item = RuleSpec>) -> Policy {
    Policy::new(rules.into_iter().collect()).unwrap()
}

/// A gate of such rules; the first rule is empty for ada.
fn empty(rules: impl IntoIterator<Item = RuleSpec>) -> (Gate<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let gate = Gate::with_clock(policy(rules), clock.clone());
    assert!(gate.admits(Descriptor::new(&[("user", "ada")]).cost(10)));
    (gate, clock)
}

fn begun<'g>(gate: &'g Gate<ManualClock>, cost: u64, clock: &ManualClock) -> Task<'g, Answer<'g>> {
    let acquire = async move { gate.acquire(Descriptor::new(&[("user", "ada")]).cost(cost)).await };
    Task::begun(acquire, clock)
}

fn is_admitted(task: &Task<'_, Answer<'_>>) -> Option<bool> {
    task.end.as_ref().map(|(_, answer)| answer.is_allowed())
}

#[test]
fn who_waits_for_a_rule_that_is_removed_goes_on() {
    let (gate, clock) = empty([each("small", 10), each("large", 100)]);
    let began = clock.now();
    let mut tasks: Vec<_> = [4, 4, 8].map(|cost| begun(&gate, cost, &clock)).into();
    assert!(tasks.iter().all(|task| !task.is_over()));
    gate.replace(policy([each("large", 100)])).unwrap();
    settle(&mut tasks, &clock);
    assert_eq!(clock.now(), began);
    for task in &tasks {
        let (_, answer) = task.end.as_ref().unwrap();
        let names: Vec<_> = answer.matched().iter().map(|one| one.rule().name()).collect();
        assert!(answer.is_allowed() && names == ["large"], "{names:?}");
    }
    assert_eq!(gate.peek(Descriptor::new(&[("user", "ada")])).remaining(), Some(100 - 10 - 16));
}

#[test]
fn who_waits_keeps_its_place_wherever_its_rule_stands() {
    let (gate, clock) = empty([each("small", 10), each("large", 100)]);
    let mut tasks: Vec<_> = [4, 1].map(|cost| begun(&gate, cost, &clock)).into();
    gate.replace(policy([each("new", 50), each("large", 100), each("small", 10)])).unwrap();
    tasks.push(begun(&gate, 1, &clock));
    settle(&mut tasks, &clock);
    assert!(tasks.iter().all(|task| !task.is_over()));
    let began = clock.now();
    run(&mut tasks, &clock);
    assert!(tasks.iter().all(|task| is_admitted(task) == Some(true)));
    let ends = tasks.iter().map(|task| task.end.as_ref().unwrap().0.duration_since(began));
    assert_eq!(ends.collect::<Vec<_>>(), [ms(4), ms(5), ms(6)], "in the order in which they came");
    let (_, answer) = tasks[0].end.as_ref().unwrap();
    assert_eq!(answer.matched().len(), 3, "it is charged to all rules of now");
}

#[test]
fn a_rule_that_was_added_since_refuses_who_waits_where_it_has_no_space() {
    let (gate, clock) = empty([each("small", 10)]);
    let mut tasks = [begun(&gate, 4, &clock)];
    gate.replace(policy([each("small", 10), each("tiny", 3)])).unwrap();
    run(&mut tasks, &clock);
    let (_, answer) = tasks[0].end.as_ref().unwrap();
    assert!(!answer.is_allowed() && answer.is_never(), "four do not ever fit into three");
}
