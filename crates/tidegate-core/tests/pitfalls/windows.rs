//! Windows and logs: units merged, miscounted at an edge, or kept for ever.

use crate::{MS, SECOND, admitted, burst, common, every, limiter};
use testkit::model::{AlgorithmKind, Policy};

const WINDOWS: [AlgorithmKind; 4] = [
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingCounter,
    AlgorithmKind::SlidingLog,
];

/// `ZADD key now now`: requests of one tick were one member, and 100,000 counted as 882.
#[test]
fn two_requests_in_one_tick_are_one_member() {
    for resolution_us in [1, MS, SECOND] {
        let policy = Policy::new(AlgorithmKind::SlidingLog, 100_000, SECOND);
        let mut log = common::limiter(&Policy { resolution_us, ..policy });
        let times = (0..200_000).map(|i| 5 * SECOND + i / 1_000);
        assert_eq!(admitted(log.as_mut(), times), 100_000, "{resolution_us}");
    }
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 2, SECOND);
        limiter.step(SECOND, 1);
        let before = limiter.peek(SECOND, 0).remaining;
        limiter.step(SECOND, 1);
        assert_eq!(limiter.peek(SECOND, 0).remaining, before - 1, "{algorithm:?}");
    }
}

/// `count <= limit` before adding admits N + 1.
#[test]
fn count_up_to_the_limit_before_adding_admits_one_more() {
    for algorithm in AlgorithmKind::ALL {
        for limit in [1, 2, 100] {
            let mut limiter = limiter(algorithm, limit, SECOND);
            let most = limiter.peek(SECOND, 0).limit;
            assert_eq!(burst(limiter.as_mut(), SECOND), most, "{algorithm:?}");
            let queue = u64::from(algorithm == AlgorithmKind::LeakyQueue);
            assert_eq!(most, limit + queue, "one is served, the others wait: {algorithm:?}");
        }
    }
}

/// `<` in one place and `<=` in another: at the edge the unit had left for the check, but not for
/// the values.
#[test]
fn the_edge_differs_between_check_and_expiry() {
    let mut log = limiter(AlgorithmKind::SlidingLog, 1, SECOND);
    assert!(log.step(SECOND, 1).allowed);
    let sooner = log.peek(2 * SECOND - 1, 1);
    assert_eq!((sooner.allowed, sooner.remaining), (false, 0));
    assert_eq!((sooner.retry_after_us, sooner.reset_after_us), (Some(1), 1));
    assert!(!log.forget_if_new(2 * SECOND - 1));
    let then = log.peek(2 * SECOND, 1);
    assert_eq!((then.allowed, then.remaining, then.reset_after_us), (true, 1, 0));
    assert!(log.forget_if_new(2 * SECOND));
}

/// `EXPIRE window/1000` is 0 for a window under a second, and the limit vanished.
#[test]
fn a_window_under_a_second_expires_at_once() {
    for algorithm in AlgorithmKind::ALL {
        for window_us in [MS, 100 * MS, 999 * MS] {
            let mut limiter = limiter(algorithm, 3, window_us);
            let start_us = 7 * window_us;
            let all = burst(limiter.as_mut(), start_us);
            assert!(!limiter.forget_if_new(start_us + 1), "{algorithm:?}");
            assert!(!limiter.step(start_us + 1, 1).allowed, "{algorithm:?}");
            assert!(all >= 3, "{algorithm:?}");
        }
    }
}

/// Milliseconds were given instead of seconds: keys were kept a thousand times too long.
#[test]
fn a_limiter_is_kept_a_thousand_times_too_long() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 3, 100 * MS);
        burst(limiter.as_mut(), SECOND);
        let reset_us = limiter.peek(SECOND, 0).reset_after_us;
        assert!((1..=200 * MS).contains(&reset_us), "{reset_us}: {algorithm:?}");
        assert!(limiter.forget_if_new(SECOND + reset_us), "{algorithm:?}");
    }
}

/// A log was trimmed only when a request was admitted: once full, it stayed full for ever.
#[test]
fn a_log_trimmed_only_when_a_request_is_admitted() {
    let mut log = limiter(AlgorithmKind::SlidingLog, 5, SECOND);
    burst(log.as_mut(), SECOND);
    let asked = every(10 * MS, SECOND, 20 * SECOND - 1);
    assert_eq!(admitted(log.as_mut(), asked), 18 * 5, "five in each second after the first");
}

/// Refused requests still counted: a caller that kept asking was never admitted again.
#[test]
fn refused_requests_still_count() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 10, SECOND);
        let got = admitted(limiter.as_mut(), every(MS, 10 * SECOND, 20 * SECOND - 1));
        assert!((90..=121).contains(&got), "{got} in ten seconds: {algorithm:?}");
    }
}

/// Bucketed windows were sold as exact: 200 within 521 ms at 100 per second. They may do that, and
/// their bound says so; an algorithm that promises exactly 100 admits exactly 100.
#[test]
fn bucketed_windows_sold_as_exact() {
    let within_521_ms = |policy: &Policy| {
        let mut limiter = common::limiter(policy);
        let got = burst(limiter.as_mut(), 2_500 * MS - 1) + burst(limiter.as_mut(), 3_020 * MS);
        (got, limiter.bound(1))
    };
    let per_second = |algorithm| Policy::new(algorithm, 100, SECOND);
    let two = Policy { buckets: 2, ..per_second(AlgorithmKind::SlidingWindow) };
    assert_eq!(within_521_ms(&two), (200, 200));
    let strict = Policy { strict: true, ..two };
    assert_eq!(within_521_ms(&strict), (100, 100));
    assert_eq!(within_521_ms(&per_second(AlgorithmKind::SlidingLog)), (100, 100));
}

/// The reset of a fixed window forgot to count the request that caused it.
#[test]
fn the_reset_forgets_the_request_that_caused_it() {
    for algorithm in WINDOWS {
        for anchor_first_request in [false, true] {
            let policy = Policy::new(algorithm, 3, SECOND);
            let mut limiter = common::limiter(&Policy { anchor_first_request, ..policy });
            for window in 1..20 {
                let got = burst(limiter.as_mut(), 3 * window * SECOND);
                assert_eq!(got, 3, "window {window}: {algorithm:?}");
            }
        }
    }
}

/// 200 just before the minute and 200 just after: a fixed window admits all, the others half.
#[test]
fn the_edge_of_a_minute_admits_twice_the_limit() {
    const MINUTE: u64 = 60 * SECOND;
    for algorithm in AlgorithmKind::ALL {
        let policy = Policy { buckets: 6, ..Policy::new(algorithm, 200, MINUTE) };
        let mut limiter = common::limiter(&policy);
        let before = admitted(limiter.as_mut(), every(1, MINUTE - 200, MINUTE - 1));
        let after = admitted(limiter.as_mut(), every(1, MINUTE, MINUTE + 199));
        let want = match algorithm {
            AlgorithmKind::FixedWindow => 400,
            AlgorithmKind::LeakyQueue => 201,
            _ => 200,
        };
        assert_eq!(before + after, want, "{algorithm:?}");
    }
}
