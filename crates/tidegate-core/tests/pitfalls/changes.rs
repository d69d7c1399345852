//! Rules that change while callers are being limited, and units that are given back.

use crate::{HOUR, SECOND, burst, common, limiter};
use testkit::model::{AlgorithmKind, Policy};

/// Keys that already existed ignored a changed limit until they expired.
#[test]
fn a_changed_limit_is_ignored_by_keys_that_already_exist() {
    for algorithm in AlgorithmKind::ALL {
        let mut small = limiter(algorithm, 10, HOUR);
        let used = burst(small.as_mut(), HOUR);
        let mut large = small.amend(HOUR, &Policy::new(algorithm, 25, HOUR));
        assert_eq!(burst(large.as_mut(), HOUR), 15, "{algorithm:?}: the difference, at once");
        let mut tiny = large.amend(HOUR, &Policy::new(algorithm, 2, HOUR));
        assert!(!tiny.step(HOUR, 1).allowed, "{algorithm:?}: {used} and 15 are used");
    }
}

/// A change minted credit: each reload filled every bucket.
#[test]
fn a_change_that_mints_credit() {
    for from in AlgorithmKind::ALL {
        for to in AlgorithmKind::ALL {
            let mut one = limiter(from, 10, HOUR);
            burst(one.as_mut(), HOUR);
            for reload in 0..10 {
                let algorithm = if reload % 2 == 0 { to } else { from };
                one = one.amend(HOUR, &Policy::new(algorithm, 10, HOUR));
                let left = one.peek(HOUR, 0).remaining;
                let more_places = u64::from(algorithm == AlgorithmKind::LeakyQueue);
                assert!(left <= more_places, "{left} after reload {reload}: {from:?} to {to:?}");
            }
        }
    }
}

/// A limit of 0 for a moment forgot all usage, and opening the gate filled every bucket.
#[test]
fn closing_the_gate_and_opening_it_mints_credit() {
    for algorithm in AlgorithmKind::ALL {
        for window_us in [HOUR, 0] {
            let mut one = limiter(algorithm, 10, HOUR);
            burst(one.as_mut(), HOUR);
            let mut closed = one.amend(HOUR, &Policy::new(algorithm, 0, window_us));
            assert_eq!(closed.step(HOUR, 1).retry_after_us, None, "{algorithm:?}");
            let mut opened = closed.amend(HOUR, &Policy::new(algorithm, 10, HOUR));
            let there = burst(opened.as_mut(), HOUR);
            assert_eq!(there, 0, "{algorithm:?}, window {window_us}");
        }
    }
}

/// A bucket with `initial` that has filled up has nothing in use, so a store may drop it while it
/// is closed: the opened limiter starts with `initial` either way. A partly used bucket keeps its
/// level.
#[test]
fn a_full_bucket_with_initial_begins_again_after_a_limit_of_0_forgotten_or_not() {
    let open = |limit| Policy {
        initial: Some(3),
        capacity: Some(10),
        ..Policy::new(AlgorithmKind::TokenBucket, limit, SECOND)
    };
    for window_us in [SECOND, 0] {
        for used in [0, 4] {
            for forgets in [false, true] {
                let mut bucket = common::limiter(&open(10));
                bucket.step(HOUR, 0);
                bucket.step(HOUR + SECOND, used);
                assert_eq!(bucket.peek(HOUR + SECOND, 0).remaining, 10 - used);
                let shut = Policy { window_us, ..open(0) };
                let mut closed = bucket.amend(HOUR + SECOND, &shut);
                let forgotten = forgets && closed.forget_if_new(HOUR + SECOND);
                assert_eq!(forgotten, forgets && used == 0);
                let mut opened = closed.amend(HOUR + SECOND, &open(10));
                let left = opened.step(HOUR + SECOND, 0).remaining;
                let kept = if window_us > 0 { 10 - used } else { 3_u64.saturating_sub(used) };
                assert_eq!(
                    left,
                    if used == 0 { 3 } else { kept },
                    "{window_us}, {used}, {forgets}"
                );
            }
        }
    }
}

/// A higher limit for a moment, then the old limit again: no credit is left.
#[test]
fn a_limit_raised_for_a_moment_leaves_nothing_behind() {
    for algorithm in AlgorithmKind::ALL {
        let mut one = limiter(algorithm, 10, SECOND);
        one.step(HOUR, 4);
        let before = one.peek(HOUR, 0);
        let raised = one.amend(HOUR, &Policy::new(algorithm, 1_000_000, SECOND));
        let mut again = raised.amend(HOUR, &Policy::new(algorithm, 10, SECOND));
        let after = again.peek(HOUR, 0);
        assert_eq!(after.remaining, before.remaining, "{algorithm:?}");
        assert!(after.reset_after_us >= before.reset_after_us, "{algorithm:?}");
    }
}

/// A refund of more than was taken gave tokens beyond the capacity.
#[test]
fn a_refund_beyond_what_was_taken_mints_credit() {
    for algorithm in AlgorithmKind::ALL {
        let mut one = limiter(algorithm, 10, SECOND);
        one.step(HOUR, 3);
        for units in [1, 2, 3, 1_000_000, u64::MAX] {
            one.refund(HOUR, units);
        }
        let there = one.peek(HOUR, 0);
        assert_eq!((there.remaining, there.reset_after_us), (there.limit, 0), "{algorithm:?}");
        assert_eq!(burst(one.as_mut(), HOUR), there.limit, "{algorithm:?}");
    }
}

/// The cost of a request beyond its reservation was forgotten at the limit.
#[test]
fn a_debt_is_forgotten() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let mut one = limiter(algorithm, 10, SECOND);
        assert!(one.step(HOUR, 10).allowed);
        one.settle(HOUR, 10, 18);
        let answer = one.step(HOUR, 1);
        assert_eq!(answer.retry_after_us, Some(9 * SECOND / 10), "{algorithm:?}");
    }
}

/// One settlement shut a bucket for 115 days, and a hundred of them for 31 years.
#[test]
fn a_debt_without_a_bound() {
    for algorithm in AlgorithmKind::ALL {
        if algorithm == AlgorithmKind::Concurrency {
            continue; // a settlement takes no permit
        }
        let mut one = limiter(algorithm, 10, SECOND);
        for _ in 0..100 {
            one.settle(HOUR, 1, 1_000_000_000);
        }
        let answer = one.step(HOUR, 1);
        let wait_us = answer.retry_after_us.unwrap();
        assert!(!answer.allowed && wait_us <= 2 * SECOND, "{algorithm:?}: {wait_us}");
    }
}

/// A gigantic rate in one public command overflowed and killed the task that decides.
#[test]
fn two_thousand_million_per_nine_quintillion_seconds_is_refused_not_run() {
    for algorithm in AlgorithmKind::ALL {
        for (limit, window_us) in [(2_000_000_000, SECOND), (1, u64::MAX), (u64::MAX, u64::MAX)] {
            let refused = common::rule(&Policy {
                capacity: Some(10),
                buckets: 1,
                ..Policy::new(algorithm, limit, window_us)
            });
            let said = refused.unwrap_err().to_string();
            assert!(said.contains("expected"), "{said}");
        }
    }
}

/// A clock that stepped back to the epoch merged the rest of one window under a lower limit with the window after it,
/// so that units of that window did not count.
#[test]
fn an_excess_of_the_window_before_the_epoch_is_taken_off_the_first_window() {
    let counter = |limit| Policy::new(AlgorithmKind::SlidingCounter, limit, SECOND);
    let mut one = common::limiter(&counter(100));
    assert!(one.step(5 * SECOND, 100).allowed);
    let mut one = one.amend(5 * SECOND, &counter(10));
    assert!(one.step(7 * SECOND - 1, 5).allowed);
    let before = one.peek(7 * SECOND - 1, 0);
    assert_eq!((before.remaining, before.reset_after_us), (4, SECOND + 1));
    // The reading is the start of the first window, in which all units of the window before it are still inside.
    let after = one.peek(0, 6);
    assert_eq!((after.allowed, after.remaining, after.reset_after_us), (false, 0, 2 * SECOND));
    assert_eq!(one.peek(SECOND - 1, 0).remaining, 4);
}
