//! Charges that are waited for, charges where memory is short, and work that panics while it is charged.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::packed::{TODAY_US, TestClock};
use crate::tasks::{Task, bucket, ms, run};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Clock, Descriptor, Gate, ManualClock, OnExcess, Policy, Request, RuleSpec, Spec,
};

const HOUR: Duration = Duration::from_secs(3_600);
const WAIT: OnExcess = OnExcess::Wait { wait: ms(100), max_waiters: 100 };

fn gate<C: Clock>(rules: Vec<RuleSpec>, clock: C) -> Gate<C> {
    Gate::with_clock(Policy::new(rules).unwrap(), clock)
}

fn log(limit: u64) -> Spec {
    Spec::new(AlgorithmKind::SlidingLog, limit, HOUR)
}

/// Asks for `cost` units as `user`.
fn ask<T>(user: &str, cost: u64, ask: impl FnOnce(&Request<'_>) -> T) -> T {
    ask(&Request::new("default", &[Descriptor::new(&[("user", user)]).cost(cost)]))
}

#[test]
fn a_charge_is_waited_for_in_turn_and_what_is_released_lets_the_next_go_on() {
    let clock = ManualClock::new();
    let gate = gate(vec![RuleSpec::new("all", bucket(10)).on_excess(WAIT)], clock.clone());
    let begun = clock.now();
    let hold_and_release = |cost, actual| {
        let (gate, clock) = (&gate, &clock);
        let work = async move {
            let descriptors = [Descriptor::new(&[]).cost(cost)];
            let request = Request::new("default", &descriptors);
            let charge = gate.hold_in_turn(&request).await.expect("within its time");
            charge.settle(actual);
            gate.now()
        };
        Task::begun(work, clock)
    };
    let mut tasks = [hold_and_release(10, 10), hold_and_release(4, 0), hold_and_release(4, 4)];
    assert_eq!(tasks.each_ref().map(Task::is_over), [true, false, false]);
    run(&mut tasks, &clock);
    let ends = tasks.each_ref().map(|task| task.end.as_ref().unwrap().1);
    let then = begun.plus(ms(4));
    assert_eq!(ends, [begun, then, then], "what the second gave back, the third had");
}

#[test]
fn a_charge_that_can_not_be_had_in_time_is_refused_at_once_and_takes_nothing() {
    let clock = ManualClock::new();
    let gate = gate(vec![RuleSpec::new("all", bucket(200)).on_excess(WAIT)], clock.clone());
    ask("ada", 150, |request| gate.hold_in_turn_blocking(request).unwrap().keep());
    ask("ada", 151, |request| {
        let refused = gate.hold_in_turn_blocking(request).unwrap_err();
        assert_eq!(refused.retry_after(), Some(ms(101)));
        assert_eq!(gate.available(request), 50);
    });
}

/// A log that goes on with coarser times is the key's own limiter, and gets back what was taken. It was once mistaken
/// for the overflow limiter, and kept what was released.
#[test]
fn a_charge_on_a_limiter_without_memory_to_grow_is_given_back() {
    let clock = TestClock::at(TODAY_US);
    let mut spec = log(10_000);
    spec.max_memory = Some(170_000);
    let gate = gate(vec![RuleSpec::new("user", spec).key(["user"])], clock.clone());
    let mut released = 0;
    for number in 0..20_000 {
        clock.pass(1);
        released += ask(["ada", "bob"][number % 2], 1, |request| {
            let before = gate.available(request);
            let Ok(charge) = gate.hold(request) else { return 0 };
            if !charge.answer().is_overflow() || number % 3 == 0 {
                charge.keep();
                return 0;
            }
            charge.release();
            assert_eq!(gate.available(request), before, "after {number}");
            1
        });
    }
    assert!(released > 100, "{released}: memory was never short");
    assert_eq!(gate.keys(), 2);
}

#[test]
fn work_that_panics_is_no_free_try() {
    let gate = gate(vec![RuleSpec::new("all", log(1))], ManualClock::new());
    let work = std::panic::AssertUnwindSafe(|| {
        ask("ada", 1, |request| {
            let _charge = gate.hold(request).unwrap();
            panic!("in the middle of the work");
        });
    });
    assert!(std::panic::catch_unwind(work).is_err());
    assert!(!ask("ada", 1, |request| gate.admits(request)));
}
