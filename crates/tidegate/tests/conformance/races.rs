//! Eight concurrent callers: not one unit over the limit, and not one lost.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use testkit::threads::together;
use tidegate::ManualClock;

use crate::kit::{every_subject, every_subject_in_memory};
use crate::subjects::{Case, InMemory, Kind, per_day};

every_subject! {
    eight_callers_get_the_limit_to_the_unit,
    costs_of_every_size_add_up_to_what_is_gone,
    what_every_caller_gives_back_is_all_there_again,
    what_eight_callers_reserve_and_settle_is_what_it_cost,
}

every_subject_in_memory! {
    [FixedWindow SlidingCounter TokenBucket LeakyBucket LeakyQueue] =>
    what_eight_callers_settle_far_beyond_the_limit_is_what_is_owed
}

/// Limiters that checked and acted in two round trips or instructions admitted 102 of 100, 21 of 20, 400 of 200,
/// 1,024 of 1,000.
fn eight_callers_get_the_limit_to_the_unit(case: &Case<'_, dyn Kind>) {
    let limit = case.kind.asks() * 8 / 3;
    let (subject, got) = (case.of(limit), AtomicU64::new(0));
    let key = subject.keys()[0];
    together(8, |_, rng| {
        for _ in 0..case.kind.asks() {
            let admitted = match rng.chance(50) {
                true => subject.check(key, 1).is_allowed(),
                false => subject.admits(key, 1),
            };
            got.fetch_add(u64::from(admitted), Relaxed);
        }
    });
    assert_eq!((got.into_inner(), subject.available(key)), (limit, 0));
}

fn costs_of_every_size_add_up_to_what_is_gone(case: &Case<'_, dyn Kind>) {
    let limit = case.kind.asks() * 6;
    let (subject, got) = (case.of(limit), AtomicU64::new(0));
    let key = subject.keys()[0];
    together(8, |_, rng| {
        for _ in 0..case.kind.asks() {
            let cost = rng.below(8);
            let admitted = subject.check(key, cost).is_allowed();
            got.fetch_add(cost * u64::from(admitted), Relaxed);
        }
    });
    let got = got.into_inner();
    assert_eq!(subject.available(key), limit - got);
    assert!(got > limit - 7, "{got} of {limit}");
}

fn what_every_caller_gives_back_is_all_there_again(case: &Case<'_, dyn Kind>) {
    let subject = case.of(40);
    let key = subject.keys()[0];
    together(8, |_, rng| {
        for _ in 0..case.kind.asks() {
            let units = rng.between(1, 20);
            if subject.check(key, units).is_allowed() {
                let _ = subject.refund(key, units);
            }
        }
    });
    assert_eq!(subject.available(key), 40);
}

fn what_eight_callers_reserve_and_settle_is_what_it_cost(case: &Case<'_, dyn Kind>) {
    let (subject, cost) = (case.of(100_000), AtomicU64::new(0));
    let key = subject.keys()[0];
    together(8, |_, rng| {
        for _ in 0..case.kind.asks() / 2 {
            let (units, actual) = (rng.below(20), rng.below(30));
            let settle = subject.reserve(key, units).ok().unwrap();
            cost.fetch_add(case.kept(actual), Relaxed);
            let _ = settle(actual);
        }
    });
    let (left, expected) = (subject.available(key), 100_000 - cost.into_inner());
    // Of a queue only the last slot comes back.
    assert!(
        left == expected || case.algorithm.is_queue() && left < expected,
        "{left} of {expected}"
    );
}

/// Each settlement counts once while others settle and give back, and the debt outgrows the word of a packed state.
fn what_eight_callers_settle_far_beyond_the_limit_is_what_is_owed(case: &Case<'_, dyn InMemory>) {
    for limit in [100, 1_000_000_000] {
        let mut spec = per_day(case.algorithm, limit);
        spec.max_debt = Some(u64::MAX);
        let subject = case.by(&ManualClock::new(), spec);
        let (key, owed) = (subject.keys()[0], AtomicU64::new(0));
        together(8, |_, rng| {
            for _ in 0..100 {
                let actual = rng.pick([0, 5, 20_000, 1 << 33]);
                let settle = subject.reserve(key, 0).ok().unwrap();
                let _ = settle(actual);
                let back = rng.below(actual + 1);
                let _ = subject.refund(key, back);
                owed.fetch_add(actual - back, Relaxed);
            }
        });
        let _ = subject.refund(key, owed.into_inner() - 1);
        assert_eq!(subject.available(key), limit - 1);
    }
}
