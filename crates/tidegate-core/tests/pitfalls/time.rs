//! Clocks: read too early, out of order, different, or gone backward.

use crate::{BUCKETS, HOUR, MS, SECOND, admitted, bucket, burst, every, limiter};
use testkit::model::AlgorithmKind;
use testkit::traffic::Rng;

/// Eight threads read the time, then wait for the lock: readings come up to 50 us late, and each
/// moved `last` back, so that the same time flowed in again and again. 5,000 times the limit.
#[test]
fn time_taken_before_the_lock() {
    for algorithm in BUCKETS {
        let mut rng = Rng::new(5);
        let mut bucket = bucket(algorithm, 1_000, SECOND, 10);
        let full = bucket.peek(0, 0).limit;
        let late = every(1, SECOND, SECOND + 200 * MS).map(|at_us| at_us - rng.below(50));
        let got = admitted(bucket.as_mut(), late);
        assert!(got <= full + 200, "{got}: {algorithm:?}");
        assert!(got >= full + 190, "{got}: {algorithm:?}");
    }
}

/// Two clients whose clocks are 50 ms apart, each writing its own `now`: 2,559 instead of 110.
#[test]
fn clocks_50_ms_apart_that_each_write_their_own_now() {
    let mut bucket = bucket(AlgorithmKind::TokenBucket, 100, SECOND, 10);
    let both = every(MS, SECOND, 2 * SECOND - 1).flat_map(|at_us| [at_us, at_us - 50 * MS]);
    let got = admitted(bucket.as_mut(), both);
    assert!((100..=110).contains(&got), "{got}");
}

/// With any other algorithm the later clock counts as well, and the earlier one mints nothing.
#[test]
fn clocks_50_ms_apart_in_any_algorithm() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 100, SECOND);
        let both = every(MS, SECOND, 2 * SECOND - 1).flat_map(|at_us| [at_us, at_us - 50 * MS]);
        let got = admitted(limiter.as_mut(), both);
        assert!((100..=201).contains(&got), "{got}: {algorithm:?}");
    }
}

/// An hour's step back locked callers out for an hour.
#[test]
fn an_hours_step_back_locked_callers_out_for_an_hour() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 10, SECOND);
        burst(limiter.as_mut(), 2 * HOUR);
        let back = 2 * HOUR - HOUR;
        let wait_us = limiter.step(back, 1).retry_after_us.unwrap();
        assert!(wait_us <= 2 * SECOND, "{wait_us}: {algorithm:?}");
        assert!(limiter.step(back + wait_us, 1).allowed, "{algorithm:?}");
    }
}

/// A step back of less than a window made the elapsed time negative, and a negative refill.
#[test]
fn a_small_step_back_took_tokens_away() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 10, SECOND);
        limiter.step(HOUR + 500 * MS, 4);
        let before = limiter.peek(HOUR + 500 * MS, 0);
        for back_us in [1, 10 * MS, 400 * MS] {
            let after = limiter.peek(HOUR + 500 * MS - back_us, 0);
            assert_eq!(after.remaining, before.remaining, "{back_us}: {algorithm:?}");
            let waits_us = before.reset_after_us + back_us;
            assert_eq!(after.reset_after_us, waits_us, "{back_us}: {algorithm:?}");
        }
    }
}

/// Waits were counted from the time of the last unit for callers whose clock was still before it.
#[test]
fn a_retry_after_that_is_too_early_after_a_small_step_back() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 10, SECOND);
        burst(limiter.as_mut(), HOUR + 500 * MS);
        let back = HOUR + 100 * MS;
        let wait_us = limiter.step(back, 1).retry_after_us.unwrap();
        assert!(wait_us > 400 * MS, "{wait_us}: {algorithm:?}");
        assert!(!limiter.step(back + wait_us - 1, 1).allowed, "{algorithm:?}");
        assert!(limiter.step(back + wait_us, 1).allowed, "{algorithm:?}");
    }
}

/// In whole seconds `retry_after` was 0 while denied, and callers came back immediately.
#[test]
fn retry_after_of_0_while_denied() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 900, SECOND);
        let mut denied = 0;
        for at_us in every(311, 0, 2 * SECOND) {
            let answer = limiter.step(at_us, 1);
            denied += u64::from(!answer.allowed);
            assert_eq!(answer.allowed, answer.retry_after_us == Some(0), "{algorithm:?}");
        }
        assert!(denied > 100, "{denied}: {algorithm:?}");
    }
}

/// A `Retry-After` that is too early sends the caller into a second refusal.
#[test]
fn a_retry_after_that_is_too_early() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 7, SECOND);
        let (mut at_us, mut denied) = (123_457, 0);
        for cost in (1..=7).cycle().take(500) {
            let answer = limiter.step(at_us, cost);
            if let (false, Some(wait_us)) = (answer.allowed, answer.retry_after_us) {
                denied += 1;
                assert!(!limiter.step(at_us + wait_us - 1, cost).allowed, "{algorithm:?}");
                at_us += wait_us;
                assert!(limiter.step(at_us, cost).allowed, "{algorithm:?}");
            }
        }
        assert!(denied > 100, "{denied}: {algorithm:?}");
    }
}

/// A clock that stepped back makes the times of earlier units worthless: those are not given back any more.
#[test]
fn what_was_taken_before_the_clock_stepped_back_is_not_given_back() {
    for algorithm in AlgorithmKind::ALL {
        if algorithm == AlgorithmKind::Concurrency {
            continue; // a token names its permit
        }
        let mut one = limiter(algorithm, 10, SECOND);
        let (_, since_us) = one.reserve(HOUR, 10);
        one.step(HOUR - 2 * SECOND, 1);
        for at_us in [HOUR - 2 * SECOND, HOUR - SECOND] {
            let settled = one.settle_since(at_us, since_us, 10, 0);
            assert_eq!(settled.late_units(), 10, "{}", algorithm.name());
        }
    }
}
