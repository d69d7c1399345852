//! Rules of a gate that change while requests wait for their limiters.

use crate::tasks::{Task, bucket, ms, run, settle};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Answer, Clock as _, Descriptor, Gate, KeyedLimiter, ManualClock, OnExcess,
    Policy, Request, RuleSpec, Spec,
};

const WAIT: OnExcess = OnExcess::Wait { wait: ms(100), max_waiters: 100 };

/// One limiter for all, and one for each user, of so many tokens, one each millisecond; all of them empty
/// for `ada`.
fn empty(all: u64, each: u64) -> (Gate<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let rules = vec![
        RuleSpec::new("all", bucket(all)).on_excess(WAIT),
        RuleSpec::new("each", bucket(each)).key(["user"]).on_excess(WAIT),
    ];
    let gate = Gate::with_clock(Policy::new(rules).unwrap(), clock.clone());
    assert!(ask(&gate, each, |gate, request| gate.admits(request)));
    (gate, clock)
}

fn ask<T>(
    gate: &Gate<ManualClock>,
    cost: u64,
    ask: impl FnOnce(&Gate<ManualClock>, &Request<'_>) -> T,
) -> T {
    ask(gate, &Request::from(Descriptor::new(&[("user", "ada")]).cost(cost)))
}

fn begun<'g>(gate: &'g Gate<ManualClock>, cost: u64, clock: &ManualClock) -> Task<'g, Answer<'g>> {
    let acquire = async move { gate.acquire(Descriptor::new(&[("user", "ada")]).cost(cost)).await };
    Task::begun(acquire, clock)
}

fn all_begun<'g, const N: usize>(
    gate: &'g Gate<ManualClock>,
    costs: [u64; N],
    clock: &ManualClock,
) -> Vec<Task<'g, Answer<'g>>> {
    costs.into_iter().map(|cost| begun(gate, cost, clock)).collect()
}

fn is_admitted(task: &Task<'_, Answer<'_>>) -> Option<bool> {
    task.end.as_ref().map(|(_, answer)| answer.is_allowed())
}

#[test]
fn a_limit_that_rises_wakes_the_head_and_those_behind_it_follow() {
    let (gate, clock) = empty(100, 10);
    let began = clock.now();
    let mut tasks = all_begun(&gate, [4, 4, 3], &clock);
    assert!(tasks.iter().all(|task| !task.is_over()));
    gate.amend("default", "all", bucket(200)).unwrap();
    assert!(tasks.iter().all(|task| task.wakes() == 0), "no request waits for that rule");
    // Ten more in the same time for each, and what was used stays used.
    gate.amend("default", "each", Spec::new(AlgorithmKind::TokenBucket, 20, ms(10))).unwrap();
    assert_eq!(tasks.iter().map(Task::wakes).collect::<Vec<_>>(), [1, 0, 0]);
    settle(&mut tasks, &clock);
    assert_eq!(tasks.iter().map(is_admitted).collect::<Vec<_>>(), [Some(true), Some(true), None]);
    run(&mut tasks, &clock);
    // Two are left and two flow in each millisecond: the third has three after half of one.
    assert_eq!(is_admitted(&tasks[2]), Some(true));
    assert_eq!(clock.now().duration_since(began), Duration::from_micros(500));
}

#[test]
fn who_can_not_be_in_time_after_a_change_is_refused_when_it_learns_of_it() {
    let (gate, clock) = empty(100, 10);
    let began = clock.now();
    let mut tasks = all_begun(&gate, [4], &clock);
    gate.amend("default", "each", Spec::new(AlgorithmKind::TokenBucket, 10, ms(1_000))).unwrap();
    settle(&mut tasks, &clock);
    let (at, answer) = tasks[0].end.as_ref().unwrap();
    assert_eq!((*at, answer.is_allowed()), (began, false));
    assert_eq!(answer.retry_after(), Some(ms(400)));
    gate.amend("default", "each", bucket(2)).unwrap();
    let never = ask(&gate, 4, |gate, request| gate.check(request).is_never());
    assert!(never);
}

#[test]
fn all_who_wait_go_on_where_their_rule_is_unlimited() {
    let (gate, clock) = empty(100, 10);
    let began = clock.now();
    let mut tasks = all_begun(&gate, [4, 4, 3, 10], &clock);
    gate.amend("default", "each", Spec::unlimited(AlgorithmKind::TokenBucket)).unwrap();
    // A request that comes now has no request before it, although the waiters have not left yet.
    assert!(ask(&gate, 5, |gate, request| gate.check(request).is_allowed()));
    settle(&mut tasks, &clock);
    assert!(tasks.iter().all(|task| is_admitted(task) == Some(true)));
    assert_eq!((clock.now(), ask(&gate, 1, |gate, request| gate.waiting(request))), (began, 0));
    assert_eq!(
        ask(&gate, 1, |gate, request| gate.peek(request).remaining()),
        Some(100 - 10 - 5 - 21)
    );
}

#[test]
fn a_request_may_wait_for_a_rule_that_was_unlimited() {
    let clock = ManualClock::new();
    let rule = RuleSpec::new("each", Spec::unlimited(AlgorithmKind::TokenBucket)).key(["user"]);
    let policy = Policy::new(vec![rule.on_excess(WAIT)]).unwrap();
    let gate = Gate::with_clock(policy, clock.clone());
    gate.amend("default", "each", bucket(3)).unwrap();
    let mut tasks = all_begun(&gate, [3, 2, 1], &clock);
    assert_eq!(tasks.iter().map(Task::is_over).collect::<Vec<_>>(), [true, false, false]);
    run(&mut tasks, &clock);
    assert!(tasks.iter().all(|task| is_admitted(task) == Some(true)));
}

#[test]
fn who_waits_for_a_key_is_woken_when_the_rule_of_all_keys_changes() {
    let clock = ManualClock::new();
    let each = KeyedLimiter::with_clock(bucket(10), clock.clone()).unwrap();
    assert!(each.admits("ada", 10) && each.admits("bob", 10));
    let mut tasks: Vec<_> = ["ada", "bob"]
        .map(|key| Task::begun(each.acquire(key, 4, ms(100)), &clock))
        .into_iter()
        .collect();
    each.amend(bucket(20)).unwrap();
    settle(&mut tasks, &clock);
    assert!(tasks.iter().all(Task::is_over));
}
