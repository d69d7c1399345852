//! Wrong rates: rounded intervals, wrapped products, lost remainders.

use crate::{BUCKETS, HOUR, MS, SECOND, admitted, bucket, burst, every, limiter};
use testkit::model::{AlgorithmKind, Policy};

/// 700,000,000 per second are 1.43 ns apart; rounded to 1 ns they became 1,000,000,000.
#[test]
fn interval_rounded_to_whole_nanoseconds() {
    let mut bucket = bucket(AlgorithmKind::TokenBucket, 700_000_000, SECOND, 700);
    let per_us = every(1, SECOND, SECOND + 10_000)
        .map(|at_us| 700 * u64::from(bucket.step(at_us, 700).allowed))
        .sum::<u64>();
    assert_eq!(per_us, 700 + 700 * 10_000);
    assert!(!bucket.step(SECOND + 10_000, 1).allowed);
}

/// Above 2,000 per second the interval rounded to 0 ms, and there was no limit at all.
#[test]
fn interval_rounded_to_whole_milliseconds() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        for rate in [2_001, 3_000, 999_999, 1_000_003] {
            let mut bucket = bucket(algorithm, rate, SECOND, 2);
            let got = admitted(bucket.as_mut(), every(1, 0, SECOND - 1));
            assert_eq!(got, (rate + 1).min(SECOND), "two at once, then the rate: {rate}");
        }
    }
}

/// `period * (n - 1)` wrapped in release: 5 s x 3,689,348,815 is just over 2^64 ns.
#[test]
fn cost_3689348816_admitted_by_a_bucket_of_10() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 10, 50 * SECOND);
        for cost in [3_689_348_816, u64::from(u32::MAX) + 1, 1 << 63, u64::MAX] {
            let answer = limiter.step(HOUR, cost);
            assert!(!answer.allowed && answer.retry_after_us.is_none(), "{algorithm:?} {cost}");
        }
        let most = limiter.peek(HOUR, 0).limit;
        assert_eq!(limiter.peek(HOUR, 0).remaining, most, "{algorithm:?}: nothing was taken");
    }
}

/// Each poll refilled a whole number of tokens and forgot the rest: 10 per 60 s, polled every 12 us,
/// gave half.
#[test]
fn remainder_dropped_at_each_refill() {
    let mut bucket = bucket(AlgorithmKind::TokenBucket, 10, 60 * SECOND, 1);
    let got = admitted(bucket.as_mut(), every(12, 0, 12 * SECOND));
    assert_eq!(got, 1 + 2, "one at once, then one every 6 s");
}

/// Refill counted in integer tokens per 100 ms: under 10 per second that was always 0.
#[test]
fn a_rate_under_ten_per_second_never_refills() {
    for algorithm in BUCKETS {
        for per_second in [1, 3, 9] {
            let policy = Policy::new(algorithm, per_second, SECOND);
            let idle = u64::from(algorithm != AlgorithmKind::LeakyQueue);
            let mut bucket = crate::common::limiter(&Policy { capacity: Some(idle), ..policy });
            let got = admitted(bucket.as_mut(), every(MS, 0, 10 * SECOND));
            // Polled every millisecond, up to one of them is missed at each unit.
            assert!((10 * per_second * 9 / 10..=10 * per_second + 1).contains(&got), "{got}");
        }
    }
}

/// Time truncated to whole milliseconds after idling, the fraction then counted again: twice the rate.
#[test]
fn refill_truncated_to_whole_milliseconds_after_idling() {
    for idle_us in [999, 1_001, 1_999, 2_501] {
        let mut bucket = bucket(AlgorithmKind::TokenBucket, 2_000, SECOND, 1);
        let got = admitted(bucket.as_mut(), every(1, idle_us, idle_us + 100 * MS));
        assert_eq!(got, 1 + 200, "idle {idle_us} us at first");
        let mut bucket = crate::bucket(AlgorithmKind::TokenBucket, 500, SECOND, 1);
        let got = admitted(bucket.as_mut(), every(idle_us, 0, 10 * SECOND));
        assert!(got <= 1 + 5_000, "{got} polled every {idle_us} us");
    }
}

/// 12 hours overflowed to negative tokens, and every caller was locked out.
#[test]
fn twelve_hours_idle_overflowed_to_negative_tokens() {
    for algorithm in AlgorithmKind::ALL {
        for idle_us in [12 * HOUR, 400 * 24 * HOUR, (1 << 52) - SECOND] {
            let mut limiter = limiter(algorithm, 10, SECOND);
            let new = burst(limiter.as_mut(), SECOND / 2);
            assert_eq!(burst(limiter.as_mut(), SECOND / 2 + idle_us), new, "{algorithm:?}");
        }
    }
}

/// `if rate == 0 { unlimited }`.
#[test]
fn a_rate_of_0_meant_infinite() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 0, SECOND);
        for at_us in every(SECOND / 3, 0, 10 * SECOND) {
            let answer = limiter.step(at_us, 1);
            assert!(!answer.allowed && answer.retry_after_us.is_none(), "{algorithm:?}");
            assert_eq!((answer.limit, answer.remaining), (0, 0), "{algorithm:?}");
        }
        assert!(limiter.step(11 * SECOND, 0).allowed, "a cost of nothing is always admitted");
    }
}

/// Tokens that flowed in while idle were added to the full bucket: a capacity of 10 gave 17
/// together.
#[test]
fn idle_then_burst_capacity_10_gives_10() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        for idle_us in [0, 1, 700 * MS, SECOND, HOUR] {
            let mut bucket = bucket(algorithm, 10, SECOND, 10);
            assert_eq!(burst(bucket.as_mut(), SECOND), 10);
            let refilled = 10.min(idle_us * 10 / SECOND);
            assert_eq!(burst(bucket.as_mut(), SECOND + idle_us), refilled, "{idle_us}");
        }
        assert_eq!(burst(bucket(algorithm, 10, SECOND, 10).as_mut(), HOUR), 10);
    }
}

/// 7 per second over a closed day: the initial tokens and those that flow in, to the unit.
#[test]
fn seven_per_second_over_a_closed_day_is_7_and_604800() {
    const DAY: u64 = 24 * HOUR;
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let mut bucket = bucket(algorithm, 7, SECOND, 7);
        let (mut at_us, mut got) = (HOUR, 0);
        loop {
            let answer = bucket.step(at_us, 1);
            got += u64::from(answer.allowed);
            assert!(got <= 604_807, "{algorithm:?}");
            assert_eq!(answer.allowed, answer.retry_after_us == Some(0), "{algorithm:?}");
            at_us += answer.retry_after_us.unwrap();
            if at_us > HOUR + DAY {
                break;
            }
        }
        assert_eq!(got, 7 + 604_800, "{algorithm:?}");
    }
}

/// A leak that started only after something had leaked never started.
#[test]
fn a_leak_that_stops_for_good_when_nothing_has_leaked_yet() {
    for algorithm in BUCKETS {
        let mut bucket = bucket(algorithm, 1, SECOND, 2);
        let all = burst(bucket.as_mut(), 0);
        assert!(all >= 2, "{algorithm:?}");
        for at_us in [1, 2, 999_998, 999_999] {
            assert!(!bucket.step(at_us, 1).allowed, "{algorithm:?} at {at_us}");
        }
        assert!(bucket.step(SECOND, 1).allowed, "{algorithm:?}");
        assert!(!bucket.step(SECOND, 1).allowed, "{algorithm:?}");
    }
}

/// `per_second(n)` meant one per n seconds.
#[test]
fn per_second_of_n_that_means_one_per_n_seconds() {
    for algorithm in AlgorithmKind::ALL {
        let mut limiter = limiter(algorithm, 5, SECOND);
        let got = admitted(limiter.as_mut(), every(100 * MS, 0, 10 * SECOND - 1));
        assert!((40..=60).contains(&got), "{got} in ten seconds at 5 per second: {algorithm:?}");
    }
}
