//! Charges that are waited for, charges where memory is short, and work that panics while it is charged.

use crate::asks::{HOUR, ask, left, policy};
use crate::packed::{TODAY_US, TestClock};
use crate::tasks::{Task, bucket, ms, run};
use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Charge, Clock, Descriptor, Gate, ManualClock, Mode, OnExcess, Request, RuleSpec,
    Spec, Taken,
};

const WAIT: OnExcess = OnExcess::Wait { wait: ms(100), max_waiters: 100 };

fn gate<C: Clock>(rules: Vec<RuleSpec>, clock: C) -> Gate<C> {
    Gate::with_clock(policy(rules), clock)
}

fn log(limit: u64) -> Spec {
    Spec::new(AlgorithmKind::SlidingLog, limit, HOUR)
}

#[test]
fn a_charge_is_waited_for_in_turn_and_what_is_released_lets_the_next_go_on() {
    let clock = ManualClock::new();
    let gate = gate(vec![RuleSpec::new("all", bucket(10)).on_excess(WAIT)], clock.clone());
    let begun = clock.now();
    let hold_and_release = |cost, actual| {
        let (gate, clock) = (&gate, &clock);
        let work = async move {
            let request = Request::from(Descriptor::new(&[]).cost(cost)).reserving();
            let answer = gate.acquire(request).await;
            let charge = Charge::of(gate, request, answer).expect("within its time");
            charge.settle(actual);
            clock.now()
        };
        Task::begun(work, clock)
    };
    let mut tasks = [hold_and_release(10, 10), hold_and_release(4, 0), hold_and_release(4, 4)];
    assert_eq!(tasks.each_ref().map(Task::is_over), [true, false, false]);
    run(&mut tasks, &clock);
    let ends = tasks.each_ref().map(|task| task.end.as_ref().unwrap().1);
    let then = begun.plus(ms(4));
    assert_eq!(ends, [begun, then, then], "the third had the units that the second gave back");
}

#[test]
fn a_charge_that_can_not_be_had_in_time_is_refused_at_once_and_takes_nothing() {
    let clock = ManualClock::new();
    let gate = gate(vec![RuleSpec::new("all", bucket(200)).on_excess(WAIT)], clock.clone());
    ask("ada", 150, |request| gate.hold(request).unwrap().keep());
    ask("ada", 151, |request| {
        let mut context = Context::from_waker(Waker::noop());
        let request = request.reserving();
        let Poll::Ready(answer) = pin!(gate.acquire(request)).poll(&mut context) else {
            panic!("it waits");
        };
        let refused = Charge::of(&gate, request, answer).unwrap_err();
        assert_eq!(refused.retry_after(), Some(ms(101)));
        assert_eq!(gate.peek(request).remaining(), Some(50));
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
            let before = gate.peek(request).remaining();
            let Ok(charge) = gate.hold(request) else { return 0 };
            if !charge.answer().is_overflow() || number % 3 == 0 {
                charge.keep();
                return 0;
            }
            charge.release();
            assert_eq!(gate.peek(request).remaining(), before, "after {number}");
            1
        });
    }
    assert!(released > 100, "{released}: memory was never short");
    assert_eq!(gate.counts().keys, 2);
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

#[test]
fn nothing_is_settled_where_nothing_was_taken() {
    let tried = RuleSpec::new("tried", log(3)).mode(Mode::Shadow);
    let gate = gate(vec![RuleSpec::new("all", log(10)).dedupe(HOUR), tried], ManualClock::new());
    let check = |cost| ask("ada", cost, |request| Taken::from(&gate.check(request)));
    let settle = |cost, taken: &Taken, actual| {
        let _ = ask("ada", cost, |request| gate.settle(request, taken, &[actual]));
    };
    let (first, refused) = (check(3), check(8));
    settle(8, &refused, 0);
    assert_eq!(left(&gate, "ada"), [7, 0], "of a refusal");
    let second = check(2);
    settle(2, &second, 0);
    assert_eq!(left(&gate, "ada"), [7, 0], "the rule in shadow mode took only the first");
    let once = |cost| {
        ask("ada", cost, |request| Taken::from(&gate.check(&request.with_id("once").unwrap())))
    };
    let (_, repeated) = (once(4), once(4));
    settle(4, &repeated, 0);
    assert_eq!(left(&gate, "ada"), [3, 0], "of an answer that is repeated");
    settle(3, &first, 1);
    assert_eq!(left(&gate, "ada"), [5, 2]);
}

/// One number for all descriptors, or one for each; the last holds for the rest.
#[test]
fn each_descriptor_is_settled_for_its_own_cost() {
    let clock = ManualClock::new();
    let gate = gate(vec![RuleSpec::new("per-user", log(100)).key(["user"])], clock.clone());
    let users = ["ada", "bob", "eve"].map(|user| [("user", user)]);
    let descriptors = users.each_ref().map(|entries| Descriptor::new(entries).cost(10));
    let request = Request::new("default", &descriptors);
    let used = |actual: &[u64]| {
        let taken = Taken::from(&gate.check(&request));
        let _ = gate.settle(&request, &taken, actual);
        let left =
            users.each_ref().map(|entries| gate.peek(("default", entries)).remaining().unwrap());
        for entries in &users {
            gate.reset(("default", entries));
        }
        // Nothing comes back that was taken before a reset, or in its microsecond.
        clock.advance(Duration::from_micros(1));
        left.map(|left| 100 - left)
    };
    assert_eq!(used(&[4]), [4, 4, 4]);
    assert_eq!(used(&[1, 0, 30]), [1, 0, 30]);
    assert_eq!(used(&[1, 20]), [1, 20, 20]);
    assert_eq!(used(&[]), [0, 0, 0]);
}
