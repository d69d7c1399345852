//! Giving back what was taken before: over everything that limits in memory, and of debts without a bound over gates.

use std::time::Duration;

use tidegate::{ManualClock, Mode, RuleSpec, Spec};

use crate::kit::{every_subject_in_memory, kit};
use crate::subjects::gates::{ask, seen};
use crate::subjects::{Case, InMemory, Store, per_day};

every_subject_in_memory! {
    what_was_taken_long_ago_is_not_given_back_to_the_window_of_today,
    what_made_no_caller_wait_does_not_come_back_after_a_reset,
}

kit! {
    Store [packed sharded] [FixedWindow SlidingCounter TokenBucket LeakyBucket LeakyQueue] =>
    all_of_a_debt_next_to_another_rule_has_to_be_given_back_before_a_unit_is_there
}

const ADA: &[(&str, &str)] = &[("user", "ada")];
const SECOND: Duration = Duration::from_secs(1);

fn what_was_taken_long_ago_is_not_given_back_to_the_window_of_today(case: &Case<'_, dyn InMemory>) {
    let clock = ManualClock::new();
    let subject = case.by(&clock, Spec::new(case.algorithm, 10, SECOND));
    let key = subject.keys()[0];
    let held: Vec<_> = (0..15)
        .map(|_| {
            let held = subject.reserve(key, 10).ok().unwrap();
            clock.advance(2 * SECOND);
            held
        })
        .collect();
    assert!(subject.check(key, 10).is_allowed());
    for settle in held {
        let _ = settle(0);
        assert!(!subject.check(key, 10).is_allowed(), "it was taken seconds ago");
    }
}

/// A lower limit takes units off a level, and no caller waits for them. After a second the rest has drained.
fn what_made_no_caller_wait_does_not_come_back_after_a_reset(case: &Case<'_, dyn InMemory>) {
    let clock = ManualClock::new();
    let subject = case.by(&clock, Spec::new(case.algorithm, 10, SECOND));
    let key = subject.keys()[0];
    let held = subject.reserve(key, 10).ok().unwrap();
    subject.change(Spec::new(case.algorithm, 1, SECOND));
    clock.advance(SECOND);
    subject.reset(key);
    let taken = subject.check(key, 1);
    assert!(taken.is_allowed());
    let _ = held(0);
    assert_eq!(subject.peek(key, 0).remaining, taken.remaining);
}

/// The debt is too large for the words of a packed state.
fn all_of_a_debt_next_to_another_rule_has_to_be_given_back_before_a_unit_is_there(
    case: &Case<'_, dyn Store>,
) {
    const DEBT: u64 = 1 << 40;
    for used in [0, 5] {
        let mut spec = per_day(case.algorithm, 100);
        spec.max_debt = Some(u64::MAX);
        let other = case.rule("other", 1).key(["user"]).mode(Mode::Shadow);
        let gate = case.gate([RuleSpec::new("own", spec).key(["user"]), other]);
        // A request of 0 units makes no limiter.
        assert!(ask(&[(ADA, used)], |request| gate.admits(request)));
        ask(&[(ADA, 0)], |request| _ = gate.settle(request, None, DEBT));
        for (units, left) in [(3, 0), (DEBT + used - 100, 3)] {
            ask(&[(ADA, units)], |request| _ = gate.refund(request));
            assert_eq!(seen(gate.as_ref(), ADA)[0], left, "{used} before, then {units} back");
        }
    }
}
