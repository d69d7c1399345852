//! Charging by outcome: what is kept, what comes back, and keys that are made as new.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::packed::{TODAY_US, TestClock, together};
use crate::tasks::{Task, settle};
use tidegate::{
    AlgorithmKind, Answer, Charge, Clock, Descriptor, Gate, KeyedLimiter, ManualClock, Micros,
    Mode, OnFull, Policy, Request, RuleSpec, Spec, Timestamp,
};

const DAY: Micros = Micros::from_secs(86_400);
const MINUTE: Micros = Micros::from_secs(60);
const HOUR: Micros = Micros::from_secs(3_600);

fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    let mut spec = Spec::new(algorithm, limit, DAY);
    spec.capacity = (algorithm == AlgorithmKind::LeakyQueue).then_some(limit - 1);
    spec
}

fn log(limit: u64, window: Micros) -> Spec {
    Spec::new(AlgorithmKind::SlidingLog, limit, window)
}

fn gate<C: Clock>(rules: Vec<RuleSpec>, clock: C) -> Gate<C> {
    Gate::with_clock(Policy::new(rules).unwrap(), clock)
}

/// Asks for `cost` units as `user`.
fn ask<T>(user: &str, cost: u64, ask: impl FnOnce(&Request<'_>) -> T) -> T {
    ask(&Request::new("default", &[Descriptor::new(&[("user", user)]).cost(cost)]))
}

fn left(answer: &Answer<'_>) -> Vec<u64> {
    answer.matched().iter().map(|matched| matched.decision().remaining).collect()
}

#[test]
fn a_charge_is_kept_unless_it_is_released() {
    type Ending = fn(Charge<'_, TestClock>);
    let endings: [(Ending, u64); 5] = [
        (|charge| drop(charge), 6),
        (|charge| charge.keep(), 6),
        (|charge| charge.release(), 10),
        (|charge| charge.settle(1), 9),
        (|charge| charge.settle(13), 0),
    ];
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        for (number, (end, remaining)) in endings.into_iter().enumerate() {
            let rules = vec![
                RuleSpec::new("all", per_day(algorithm, 10)),
                RuleSpec::new("user", per_day(algorithm, 10)).key(["user"]),
            ];
            let gate = gate(rules, TestClock::at(TODAY_US));
            ask("ada", 4, |request| {
                let charge = gate.hold(request).unwrap();
                assert_eq!(left(charge.answer()), [6, 6], "taken before the work begins");
                end(charge);
                let seen = left(&gate.peek(request));
                assert_eq!(seen, [remaining; 2], "{algorithm}, ending {number}");
            });
        }
    }
}

#[test]
fn a_refusal_holds_nothing_and_tells_when_to_come_back() {
    let gate = gate(vec![RuleSpec::new("all", log(3, MINUTE))], ManualClock::new());
    let refused = ask("ada", 3, |request| {
        gate.hold(request).unwrap().keep();
        gate.hold(request).unwrap_err().retry_after()
    });
    assert_eq!(refused, Some(MINUTE));
}

#[test]
fn work_that_panics_is_no_free_try() {
    let gate = gate(vec![RuleSpec::new("all", log(1, MINUTE))], ManualClock::new());
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
fn what_was_not_taken_is_not_given_back() {
    let rules = vec![
        RuleSpec::new("trial", log(3, MINUTE)).mode(Mode::Shadow),
        RuleSpec::new("full", log(9, MINUTE)).key(["user"]).max_keys(1, OnFull::Share),
        RuleSpec::new("live", log(9, MINUTE)),
    ];
    let gate = gate(rules, TestClock::at(TODAY_US));
    assert!(ask("ada", 2, |request| gate.admits(request)));
    let seen = ask("bob", 2, |request| {
        gate.hold(request).unwrap().release();
        left(&gate.peek(request))
    });
    let told =
        "the trial would have refused, bob has no limiter of his own, the live one has it back";
    assert_eq!(seen, [1, 7, 7], "{told}");
    let none = Request::new("none", &[]);
    gate.hold(&none).unwrap().release();
}

/// Whatever is held and released meanwhile, the limit holds for what is kept.
#[test]
fn eight_threads_keep_no_more_than_the_limit() {
    let gate = gate(vec![RuleSpec::new("all", log(100, DAY))], TestClock::at(TODAY_US));
    let kept = AtomicU64::new(0);
    together(8, |_, rng| {
        for _ in 0..200 {
            ask("ada", 1, |request| match gate.hold(request) {
                Ok(charge) if rng.chance(2) => charge.release(),
                Ok(charge) => {
                    charge.keep();
                    kept.fetch_add(1, SeqCst);
                }
                Err(_) => {}
            });
        }
    });
    let (kept, seen) = (kept.into_inner(), ask("ada", 1, |request| left(&gate.peek(request))));
    assert_eq!((kept, seen), (kept.min(100), vec![100 - kept]));
}

fn is_as_new_after_a_reset<C: Clock + Clone>(algorithm: AlgorithmKind, clock: &C, amended: bool) {
    let keyed = KeyedLimiter::with_clock(per_day(algorithm, 5), clock.clone()).unwrap();
    if amended {
        keyed.amend(per_day(algorithm, 4)).unwrap();
    }
    let capacity = keyed.available("ada");
    assert!(keyed.admits("ada", capacity) && keyed.admits("bob", 1));
    keyed.reset("ada");
    let seen = (keyed.available("ada"), keyed.available("bob"), keyed.keys());
    assert_eq!(seen, (capacity, capacity - 1, 1), "{algorithm}, amended: {amended}");
    keyed.reset("nobody");
    assert_eq!(keyed.keys(), 1);
}

#[test]
fn a_key_that_is_reset_is_as_new_and_no_other_is() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        for amended in [false, true] {
            is_as_new_after_a_reset(algorithm, &TestClock::at(TODAY_US), amended);
            is_as_new_after_a_reset(algorithm, &Timestamp::from_micros(TODAY_US), amended);
        }
    }
}

#[test]
fn a_key_without_room_resets_nothing_of_the_others() {
    let keyed = KeyedLimiter::new(log(5, DAY)).unwrap().with_max_keys(1, OnFull::Share);
    assert!(["first", "second", "third"].iter().all(|key| keyed.admits(key, 2)));
    keyed.reset("second");
    assert_eq!((keyed.available("second"), keyed.available("first")), (1, 3));
}

#[test]
fn who_waits_for_a_key_goes_on_when_it_is_reset() {
    let clock = ManualClock::new();
    let keyed = KeyedLimiter::with_clock(log(1, MINUTE), clock.clone()).unwrap();
    assert!(keyed.admits("ada", 1) && keyed.admits("bob", 1));
    let mut tasks = ["ada", "bob"].map(|key| Task::begun(keyed.acquire(key, 1, HOUR), &clock));
    keyed.reset("ada");
    settle(&mut tasks, &clock);
    assert_eq!(tasks.each_ref().map(Task::is_over), [true, false]);
    assert_eq!(tasks[1].wakes(), 0);
}
