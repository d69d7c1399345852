//! A flood of keys takes no more memory than the cap, counted byte by byte by the allocator itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use peak_alloc::PeakAlloc;
use tidegate::{
    Algorithm, Descriptor, Gate, KeyedLimiter, Micros, OnFull, Policy, Request, RuleSpec, Spec,
};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const CAP: usize = 100_000;

/// Tests of this file take turns: what one allocates, the others would count.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends so many keys through a cap; the bytes held when it was reached, and the most ever after.
fn flood(algorithm: Algorithm, on_full: OnFull, keys: u64) -> (usize, usize) {
    let _turn = turn();
    let before = HEAP.current_usage();
    let spec = Spec::new(algorithm, 1, Micros::from_secs(86_400));
    let limiter = KeyedLimiter::with_max_keys(spec, CAP, on_full).unwrap();
    let ask = |number: u64| _ = limiter.check(number.to_le_bytes(), 1);
    (0..CAP as u64).for_each(ask);
    assert_eq!(limiter.keys(), CAP);
    let full = HEAP.current_usage().saturating_sub(before);
    HEAP.reset_peak_usage();
    (CAP as u64..keys).for_each(ask);
    assert_eq!(limiter.keys(), CAP);
    (full, HEAP.peak_usage().saturating_sub(before))
}

#[test]
fn a_million_keys_through_a_cap_of_a_tenth_take_the_memory_of_a_tenth() {
    for on_full in [OnFull::Share, OnFull::Refuse] {
        let (full, most) = flood(Algorithm::TokenBucket, on_full, 1_000_000);
        assert!(full < CAP * 40, "{full} bytes for {CAP} keys that fit a word each");
        assert!(full > CAP * 20, "{full} bytes: was everyone held?");
        assert!(most <= full + 4_096, "{most} bytes after {full}");
    }
}

#[test]
fn states_kept_whole_stay_within_their_cap_too() {
    let (full, most) = flood(Algorithm::SlidingLog, OnFull::Share, 250_000);
    assert!(most <= full + 4_096, "{most} bytes after {full}");
}

/// Keys that are made as good as new by hand come back, over and over: nothing of them stays behind.
#[test]
fn keys_that_are_reset_again_and_again_leave_nothing_behind() {
    let _turn = turn();
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingLog] {
        let rule = RuleSpec::new("r", Spec::new(algorithm, 1, Micros::from_secs(86_400)));
        let gate = Gate::new(Policy::new(vec![rule.key(["user"])]).unwrap());
        let round = || {
            for number in 0..1_000 {
                let user = number.to_string();
                let entries = [("user", user.as_str())];
                let descriptors = [Descriptor::new(&entries)];
                let request = Request::new(Request::DEFAULT_DOMAIN, &descriptors);
                assert_eq!(gate.reset(&request), 1);
                assert!(gate.admits(&request) && !gate.admits(&request), "{algorithm}");
            }
        };
        (0..10).for_each(|_| round());
        let before = HEAP.current_usage();
        (0..90).for_each(|_| round());
        let more = HEAP.current_usage().saturating_sub(before);
        assert!(more < 16_384, "{algorithm}: {more} bytes more");
        assert_eq!(gate.keys(), 1_000);
    }
}
