//! Waiting at a gate under an id: a repeated request is held like the first, and takes no turn.

use crate::tasks::{Task, bucket, ms, run};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Answer, Clock, Descriptor, Gate, ManualClock, OnExcess, Policy, Request,
    RuleSpec, Spec,
};

fn gate(rule: RuleSpec) -> (Gate<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let policy = Policy::new(vec![rule.dedupe(Duration::from_secs(60))]).unwrap();
    (Gate::with_clock(policy, clock.clone()), clock)
}

/// Asks for one unit, under an id if there is one to say.
fn ask<T>(id: &str, ask: impl FnOnce(&Request<'_>) -> T) -> T {
    let plain = Request::from(Descriptor::new(&[]));
    ask(&plain.with_id(id).unwrap_or(plain))
}

/// A task that waits at the gate, polled once.
fn begun<'g>(
    gate: &'g Gate<ManualClock>,
    id: &'static str,
    clock: &ManualClock,
) -> Task<'g, Answer<'g>> {
    let acquire = async move {
        let plain = Request::from(Descriptor::new(&[]));
        gate.acquire(&plain.with_id(id).unwrap_or(plain)).await
    };
    Task::begun(acquire, clock)
}

#[test]
fn a_repeated_request_is_held_until_the_slot_of_the_first_and_no_longer() {
    let (gate, clock) = gate(RuleSpec::new("q", Spec::new(AlgorithmKind::LeakyQueue, 1, ms(10))));
    let began = clock.now();
    assert!(ask("", |request| gate.check(request).is_allowed()));
    assert_eq!(ask("a", |request| gate.check(request).delay()), ms(10));
    clock.advance(ms(4));
    let mut tasks = [begun(&gate, "a", &clock)];
    assert!(!tasks[0].is_over(), "its slot is in 6 ms");
    run(&mut tasks, &clock);
    let (at, answer) = tasks[0].end.as_ref().unwrap();
    assert_eq!((at.duration_since(began), answer.delay()), (ms(10), Duration::ZERO));
    assert!(answer.is_allowed() && answer.is_repeated());
    assert!(begun(&gate, "a", &clock).is_over(), "its slot is there");
    let reported = ask("a", |request| gate.check(request).delay());
    assert_eq!(reported, ms(10), "a repetition that does not wait gets the first answer");
}

#[test]
fn a_thread_is_held_as_well() {
    let (gate, clock) = gate(RuleSpec::new("q", Spec::new(AlgorithmKind::LeakyQueue, 1, ms(10))));
    assert!(ask("", |request| gate.check(request).is_allowed()));
    assert_eq!(ask("a", |request| gate.check(request).delay()), ms(10));
    let answer = std::thread::scope(|scope| {
        let held =
            scope.spawn(|| ask("a", |request| (gate.acquire_blocking(request).at(), clock.now())));
        while clock.next_sleeper().is_none() && !held.is_finished() {
            std::thread::yield_now();
        }
        clock.advance(ms(10));
        held.join().unwrap()
    });
    assert_eq!(answer.1.duration_since(answer.0), ms(10));
}

#[test]
fn one_that_waits_twice_takes_once_and_is_answered_before_its_turn() {
    let wait = OnExcess::Wait { wait: ms(100), max_waiters: 10 };
    let (gate, clock) = gate(RuleSpec::new("r", bucket(1)).on_excess(wait));
    let began = clock.now();
    assert!(ask("", |request| gate.check(request).is_allowed()));
    let mut tasks = ["a", "", "a", ""].map(|id| begun(&gate, id, &clock));
    clock.advance(ms(1));
    assert!(tasks[0].poll(&clock));
    assert!(tasks[2].poll(&clock), "its request is answered, even with others before it");
    run(&mut tasks, &clock);
    let ends = tasks.map(|task| task.end.map(|(at, answer)| (at.duration_since(began), answer)));
    let ends = ends.map(|end| end.map(|(at, answer)| (at, answer.is_repeated())));
    let expected = [(1, false), (2, false), (1, true), (3, false)];
    assert_eq!(ends, expected.map(|(at, repeated)| Some((ms(at), repeated))));
}
