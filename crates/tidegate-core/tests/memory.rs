//! The heap memory of one key's state, counted byte by byte by the allocator itself.
//!
//! A test sets a mark, a limiter works, and the test reads the peak above the mark. So growth
//! counts, and so does memory that is held only while something grows.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::{Mutex, MutexGuard, PoisonError};

use common::Limiter;
use peak_alloc::PeakAlloc;
use testkit::model::{AlgorithmKind, Policy};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const SECOND_US: u64 = 1_000_000;
const KIB: usize = 1_024;

/// The tests of this file take turns, because each would count the allocations of the others.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The peak of bytes held while `work` runs, beyond those held before.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let done = work();
    (done, HEAP.peak_usage().saturating_sub(before))
}

/// The smallest of several peaks, because the test harness runs on a thread of its own and may hold a few bytes of
/// text.
fn least_peak_of<T>(mut work: impl FnMut() -> T) -> usize {
    (0..20).map(|_| peak_of(&mut work).1).min().unwrap_or_default()
}

fn log(limit: u64, resolution_us: u64) -> Policy {
    Policy { resolution_us, ..Policy::new(AlgorithmKind::SlidingLog, limit, SECOND_US) }
}

/// Asks for a unit at every microsecond from `from_us` for a second; returns how many were
/// admitted.
fn saturate(limiter: &mut dyn Limiter, from_us: u64) -> u64 {
    let ask = |at_us| u64::from(limiter.step(at_us, 1).allowed);
    (from_us..from_us + SECOND_US).map(ask).sum()
}

/// A new limiter that was saturated for two seconds, and its peak.
fn peak_of_two_saturated_seconds(policy: &Policy) -> usize {
    let (_, bytes) = peak_of(|| {
        let mut limiter = common::limiter(policy);
        assert!(saturate(limiter.as_mut(), 0) > 0);
        saturate(limiter.as_mut(), SECOND_US);
        limiter
    });
    bytes
}

#[test]
fn a_million_per_second_at_a_millisecond_takes_less_than_64_kib() {
    let _turn = turn();
    let bytes = peak_of_two_saturated_seconds(&log(1_000_000, 1_000));
    assert!(bytes < 64 * KIB, "{bytes}");
    assert!(bytes > 1_000 * 16 / 2, "{bytes}: was anything held at all?");
}

/// 16 bytes for each entry, one entry for each microsecond.
#[test]
fn a_million_per_second_at_a_microsecond_takes_less_than_17_mb() {
    let _turn = turn();
    let bytes = peak_of_two_saturated_seconds(&log(1_000_000, 1));
    assert!(bytes < 17_000_000, "{bytes}");
    assert!(bytes >= 16_000_000, "{bytes}: was every unit held?");
}

/// The memory that a rule counts against `max_memory` is the memory held, except one chunk and the
/// list of chunks.
#[test]
fn the_state_holds_what_the_rule_says_it_would() {
    let _turn = turn();
    for limit in [1, 10, 100, 5_000, 60_000, 500_000] {
        let answer = usize::try_from(limit).unwrap() * 16;
        let bytes = peak_of_two_saturated_seconds(&log(limit, 1));
        assert!(bytes <= answer + answer / 16 + 18 * KIB, "{bytes} for {limit} entries");
    }
}

/// A full log is not searched: a refusal allocates nothing, for any N.
#[test]
fn a_refusal_allocates_nothing() {
    let _turn = turn();
    for algorithm in AlgorithmKind::ALL {
        let policy = Policy::new(algorithm, 1_000, 1_000 * SECOND_US);
        let mut limiter = common::limiter(&policy);
        assert!((0..2_000).any(|_| !limiter.step(SECOND_US, 1).allowed), "{algorithm:?}");
        let bytes = least_peak_of(|| {
            for at_us in SECOND_US..SECOND_US + 500 {
                assert!(!limiter.step(at_us, 1).allowed, "{algorithm:?}");
            }
        });
        assert_eq!(bytes, 0, "{algorithm:?}");
    }
}

/// At saturation each new unit drops one that has left: the number of entries does not change, and
/// no verdict touches more than the ends of the log, however long it is.
#[test]
fn a_saturated_log_neither_grows_nor_moves_however_long_it_is() {
    let _turn = turn();
    for limit in [1_000, 10_000, 100_000, 1_000_000] {
        let policy = log(limit, 1);
        let mut limiter = common::limiter(&policy);
        let every_us = SECOND_US / limit;
        let mut at_us = 0;
        for _ in 0..limit {
            assert!(limiter.step(at_us, 1).allowed);
            at_us += every_us;
        }
        let (first, more) = ten_thousand_units(limiter.as_mut(), &mut at_us, every_us);
        assert_eq!(first, 10_000, "{limit}");
        assert!(more <= 40 * KIB, "{more} more for {limit} entries: it grows, or it moves");
        let (_, later) = ten_thousand_units(limiter.as_mut(), &mut at_us, every_us);
        assert!(later <= 40 * KIB, "{later} more for {limit} entries");
    }
}

fn ten_thousand_units(limiter: &mut dyn Limiter, at_us: &mut u64, every_us: u64) -> (usize, usize) {
    peak_of(|| {
        let mut admitted = 0;
        for _ in 0..10_000 {
            admitted += usize::from(limiter.step(*at_us, 1).allowed);
            assert!(!limiter.step(*at_us, 1).allowed, "the log is full again");
            *at_us += every_us;
        }
        admitted
    })
}

/// Costs are not entries: one unit and a thousand million of them in one request take the same
/// memory.
#[test]
fn an_entry_holds_any_number_of_units() {
    let _turn = turn();
    let (_, bytes) = peak_of(|| {
        let mut limiter = common::limiter(&log(1_000_000_000, 1));
        assert!(limiter.step(5, 1_000_000_000).allowed);
        limiter
    });
    assert!(bytes < KIB, "{bytes}");
}

#[test]
fn only_the_log_the_permits_and_the_buckets_of_a_window_are_on_the_heap() {
    let _turn = turn();
    for algorithm in AlgorithmKind::ALL {
        let policy = Policy::new(algorithm, 1_000, SECOND_US);
        let empty = least_peak_of(|| common::limiter(&policy));
        let full = least_peak_of(|| {
            let mut limiter = common::limiter(&policy);
            for i in 0..5_000 {
                limiter.step(200 * i, 1);
            }
            limiter
        });
        // Allocations of the test runner on its own threads are counted too.
        let bytes = full.saturating_sub(empty);
        match algorithm {
            AlgorithmKind::SlidingLog => assert!(bytes >= 16_000, "{bytes}"),
            AlgorithmKind::Concurrency => assert!(bytes >= 24_000, "{bytes}"),
            AlgorithmKind::SlidingWindow => assert!(bytes < KIB, "ten counters, not {bytes}"),
            _ => assert!(bytes < KIB, "{algorithm:?}: {bytes}"),
        }
    }
}
