//! One limiter for each key, asked by one caller: the behaviour of every kind of limiter, under every algorithm.

use std::time::Duration;
use tidegate::Outcome;

use crate::kit::every_subject;
use crate::subjects::{Case, Kind, Subject};

every_subject! {
    looks_take_nothing_and_what_costs_nothing_is_admitted,
    what_is_given_back_can_be_taken_again_and_no_more,
    a_reset_forgets_one_key_and_no_other,
    reservations_are_settled_even_into_debt,
    a_denial_takes_nothing_and_reports_a_wait,
    enormous_costs_are_never_admitted_and_harm_nobody,
    a_limit_of_zero_admits_only_what_costs_nothing,
    admits_is_check_without_the_values,
}

/// By then a unit of the last window has left, with any weight in the current window.
const TWO_DAYS: Duration = Duration::from_secs(2 * 86_400);

/// The number of requests of one unit that are admitted before one is refused.
fn admitted(subject: &dyn Subject, key: &str) -> usize {
    (0..1_000).take_while(|_| subject.check(key, 1).is_allowed()).count()
}

fn looks_take_nothing_and_what_costs_nothing_is_admitted(case: &Case<'_, dyn Kind>) {
    let subject = case.of(3);
    for key in subject.keys() {
        for left in (0..3).rev() {
            assert!(subject.peek(key, 1).is_allowed());
            assert_eq!(subject.available(key), left + 1);
            assert_eq!(subject.check(key, 1).remaining, left);
        }
        assert!(!subject.peek(key, 1).is_allowed() && !subject.check(key, 1).is_allowed());
        assert!(!subject.admits(key, 1) && subject.admits(key, 0));
        let nothing = subject.check(key, 0);
        assert_eq!((nothing.retry_after(), nothing.remaining), (Some(Duration::ZERO), 0));
    }
}

fn what_is_given_back_can_be_taken_again_and_no_more(case: &Case<'_, dyn Kind>) {
    let subject = case.of(10);
    for key in subject.keys() {
        assert!(subject.check(key, 10).is_allowed());
        assert_eq!(subject.refund(key, 4).remaining, 4);
        assert_eq!(admitted(subject.as_ref(), key), 4);
        assert_eq!(subject.refund(key, u64::MAX).remaining, 10);
        assert_eq!(admitted(subject.as_ref(), key), 10);
    }
}

fn a_reset_forgets_one_key_and_no_other(case: &Case<'_, dyn Kind>) {
    let subject = case.of(5);
    let [first, others @ ..] = subject.keys() else { panic!("no key") };
    for key in subject.keys() {
        assert!(subject.check(key, 5).is_allowed());
    }
    subject.reset(first);
    assert_eq!(subject.available(first), 5);
    assert!(others.iter().all(|key| subject.available(key) == 0));
    assert_eq!(admitted(subject.as_ref(), first), 5);
}

fn reservations_are_settled_even_into_debt(case: &Case<'_, dyn Kind>) {
    let subject = case.of(100);
    for key in subject.keys() {
        // The reserved units, the actual cost, and the units left then.
        for (units, actual, left) in
            [(60, 25, 75), (10, 10, 65), (5, 25, 40), (40, 45, 0), (0, 0, 0)]
        {
            let settle = subject.reserve(key, units).ok().unwrap();
            let left = if case.algorithm.holds_permits() { 100 } else { left };
            assert_eq!(settle(actual).0.remaining, left, "{units} for {actual}");
        }
        if case.algorithm.holds_permits() {
            continue; // a permit leaves no debt
        }
        let refusal = subject.reserve(key, 1).err().unwrap();
        assert!(refusal.retry_after().is_some_and(|wait| wait > Duration::ZERO));
        let _ = subject.refund(key, 5);
        assert_eq!(subject.available(key), 0, "the debt was 5");
        let _ = subject.refund(key, 1);
        assert_eq!(subject.available(key), 1);
    }
}

/// In released limiters, a second call computed the values, and a refusal reported 5,000 remaining; others reported
/// no wait, or a wait of 0.
fn a_denial_takes_nothing_and_reports_a_wait(case: &Case<'_, dyn Kind>) {
    let subject = case.of(5_000);
    for key in subject.keys() {
        for (cost, remaining) in
            [(3_000, 2_000), (3_000, 2_000), (1_500, 500), (700, 500), (5_000, 500), (500, 0)]
        {
            let decision = subject.check(key, cost);
            assert_eq!(decision.remaining, remaining, "{cost}");
            assert!(decision.is_allowed() || decision.remaining < cost, "{decision:?}");
            assert_eq!(subject.available(key), remaining);
        }
        let wait = subject.check(key, 1).retry_after().unwrap();
        assert!(wait > Duration::ZERO && wait <= TWO_DAYS, "{wait:?}");
    }
}

/// One command with enormous numbers once killed the task that decides.
fn enormous_costs_are_never_admitted_and_harm_nobody(case: &Case<'_, dyn Kind>) {
    let subject = case.of(10);
    for key in subject.keys() {
        for cost in [11, 2_000_000_000, 9_000_000_000_000_000_000, u64::MAX] {
            assert_eq!(subject.check(key, cost).outcome, Outcome::Never, "{cost}");
            assert_eq!(subject.peek(key, cost).outcome, Outcome::Never, "{cost}");
            assert_eq!(subject.reserve(key, cost).err().unwrap().outcome, Outcome::Never);
            assert_eq!(subject.refund(key, cost).remaining, 10, "{cost}");
        }
        assert_eq!(admitted(subject.as_ref(), key), 10, "it still decides");
    }
}

fn a_limit_of_zero_admits_only_what_costs_nothing(case: &Case<'_, dyn Kind>) {
    let subject = case.of(0);
    for key in subject.keys() {
        assert_eq!(subject.check(key, 1).outcome, Outcome::Never);
        assert!(!subject.admits(key, u64::MAX) && subject.admits(key, 0));
        assert!(subject.check(key, 0).is_allowed());
        assert_eq!((subject.refund(key, 7).remaining, subject.available(key)), (0, 0));
    }
}

fn admits_is_check_without_the_values(case: &Case<'_, dyn Kind>) {
    let (one, other) = (case.of(5), case.of(5));
    for key in one.keys() {
        for cost in [1, 0, 3, 9, 1, 2, 1, 1] {
            assert_eq!(one.admits(key, cost), other.check(key, cost).is_allowed(), "{cost}");
        }
    }
}
