//! A flood of keys takes no more memory than the cap, counted byte by byte by the allocator itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Mutex, PoisonError};

use peak_alloc::PeakAlloc;
use tidegate::{Algorithm, KeyedLimiter, Micros, OnFull, Spec};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const CAP: usize = 100_000;
const FLOOD: u64 = 1_000_000;

/// Sends the flood through a cap; the bytes held when it was reached, and the most ever after.
fn flood(algorithm: Algorithm, on_full: OnFull) -> (usize, usize) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = HEAP.current_usage();
    let spec = Spec::new(algorithm, 1, Micros::from_secs(86_400));
    let limiter = KeyedLimiter::with_max_keys(spec, CAP, on_full).unwrap();
    let ask = |number: u64| _ = limiter.check(number.to_le_bytes(), 1);
    (0..CAP as u64).for_each(ask);
    assert_eq!(limiter.keys(), CAP);
    let full = HEAP.current_usage().saturating_sub(before);
    HEAP.reset_peak_usage();
    (CAP as u64..FLOOD).for_each(ask);
    assert_eq!(limiter.keys(), CAP);
    (full, HEAP.peak_usage().saturating_sub(before))
}

#[test]
fn a_million_keys_through_a_cap_of_a_tenth_take_the_memory_of_a_tenth() {
    for on_full in [OnFull::Share, OnFull::Refuse] {
        let (full, most) = flood(Algorithm::TokenBucket, on_full);
        assert!(full < CAP * 40, "{full} bytes for {CAP} keys that fit a word each");
        assert!(full > CAP * 20, "{full} bytes: was everyone held?");
        assert!(most <= full + 4_096, "{most} bytes after {full}");
    }
}

#[test]
fn states_kept_whole_stay_within_their_cap_too() {
    let (full, most) = flood(Algorithm::SlidingLog, OnFull::Share);
    assert!(most <= full + 4_096, "{most} bytes after {full}");
}
