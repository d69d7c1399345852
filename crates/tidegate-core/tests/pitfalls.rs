//! Mistakes found in released limiters, each as a test with its name. None of them may happen here.
//!
//! Mistakes that a rule shows in a few steps are cases of the tables next to the algorithms, `case pitfall: ...`; mistakes
//! that any traffic may show are properties, with a note that begins with "Pitfall". Mistakes that need several keys,
//! limits or threads are tests of the engine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::Limiter;
use testkit::model::{AlgorithmKind, Model, Policy};
use testkit::traffic::Rng;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;
const HOUR: u64 = 3_600 * SECOND;

/// A new limiter of so many units per window.
fn limiter(algorithm: AlgorithmKind, limit: u64, window_us: u64) -> Box<dyn Limiter> {
    common::limiter(&Policy::new(algorithm, limit, window_us))
}

/// A new bucket of that capacity: a token bucket, or the same algorithm under another name.
fn bucket(algorithm: AlgorithmKind, limit: u64, window_us: u64, capacity: u64) -> Box<dyn Limiter> {
    let policy = Policy::new(algorithm, limit, window_us);
    common::limiter(&Policy { capacity: Some(capacity), ..policy })
}

/// Units admitted when one is asked for at each of these times.
fn admitted(limiter: &mut dyn Limiter, times_us: impl IntoIterator<Item = u64>) -> u64 {
    times_us.into_iter().map(|at_us| u64::from(limiter.step(at_us, 1).allowed)).sum()
}

/// Every `step_us` from `from_us` to `to_us`, the ends included where they fall on a step.
fn every(step_us: u64, from_us: u64, to_us: u64) -> impl Iterator<Item = u64> {
    (0..=(to_us - from_us) / step_us).map(move |step| from_us + step * step_us)
}

/// Units admitted at one instant, one by one until one is refused.
fn burst(limiter: &mut dyn Limiter, at_us: u64) -> u64 {
    (0..1_000_000).take_while(|_| limiter.step(at_us, 1).allowed).count() as u64
}

const BUCKETS: [AlgorithmKind; 3] =
    [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket, AlgorithmKind::LeakyQueue];

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

/// 7 per second over a closed day: the initial tokens and those that flow in, to the unit.
#[test]
fn seven_per_second_over_a_closed_day_is_7_and_604800() {
    const DAY: u64 = 24 * HOUR;
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let mut bucket = bucket(algorithm, 7, SECOND, 7);
        let mut model = Model::new(Policy::new(algorithm, 7, SECOND));
        let (mut at_us, mut got) = (HOUR, 0);
        loop {
            let answer = bucket.step(at_us, 1);
            assert_eq!(answer, model.step(at_us, 1), "{algorithm:?}");
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

/// A caller gave the only units of a window back, and so moved the window.
#[test]
fn a_window_that_a_caller_moves_by_giving_its_units_back() {
    let policy = Policy::new(AlgorithmKind::FixedWindow, 10, SECOND);
    let mut window = common::limiter(&Policy { anchor_first_request: true, ..policy });
    let (_, since_us) = window.reserve(HOUR, 10);
    window.settle_since(HOUR + MS, since_us, 10, 0);
    assert_eq!(window.step(HOUR + MS, 4).reset_after_us, SECOND - MS);
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
