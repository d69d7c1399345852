//! A table that grows while all threads ask: each key has its own exact count, and no key is lost.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::packed::{TODAY_US, TestClock, long, together};
use std::time::Duration;
use tidegate::{AlgorithmKind, KeyedLimiter, OnFull, Spec};

const KEYS: u32 = 200_000;

fn key(number: u32) -> [u8; 4] {
    number.to_le_bytes()
}

/// `limit` units per hour, each key's first of them now.
fn limiter(limit: u64) -> KeyedLimiter<TestClock> {
    let spec = Spec::new(AlgorithmKind::FixedWindow, limit, Duration::from_secs(3_600));
    KeyedLimiter::with_clock(spec, TestClock::at(TODAY_US)).unwrap()
}

/// Every thread asks for a unit of every key, each in an order of its own, and all of them are new:
/// of as many units as there are threads, all but one are there.
#[test]
fn keys_of_several_threads_at_once_have_one_limiter_each() {
    for threads in [2_u64, 8] {
        let limiter = limiter(threads - 1);
        let admitted: Vec<_> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
        together(threads, |_, rng| {
            let begin = rng.next_u64() as u32;
            for step in 0..KEYS {
                // An odd factor goes through all numbers below a power of two; these are more.
                let number = (begin ^ step.wrapping_mul(0x9e37_79b1)) % KEYS;
                let yes = limiter.admits(key(number), 1);
                admitted[number as usize].fetch_add(u32::from(yes), Relaxed);
            }
        });
        // Asks now for the keys that some thread skipped.
        for number in 0..KEYS {
            for _ in 0..threads {
                let yes = limiter.admits(key(number), 1);
                admitted[number as usize].fetch_add(u32::from(yes), Relaxed);
            }
        }
        let each = u32::try_from(threads - 1).unwrap();
        let wrong = admitted.iter().filter(|admitted| admitted.load(Relaxed) != each).count();
        assert_eq!(wrong, 0, "keys with more or fewer units than {each}");
        assert_eq!(limiter.keys(), KEYS as usize);
    }
}

/// Half of the threads ask for new keys, each for its own; the others ask for keys that are there.
#[test]
fn keys_in_use_keep_their_counts_while_the_table_grows_around_them() {
    const OLD: u32 = 1_000;
    let limiter = limiter(1_000_000);
    let taken: Vec<_> = (0..OLD).map(|_| AtomicU64::new(0)).collect();
    together(8, |thread, rng| {
        let thread = u32::try_from(thread).unwrap();
        for step in 0..KEYS / 4 {
            if thread < 4 {
                assert!(limiter.admits(key(OLD + thread * (KEYS / 4) + step), 1));
            } else {
                let (number, cost) = (rng.below(u64::from(OLD)) as u32, rng.between(1, 3));
                assert!(limiter.admits(key(number), cost));
                taken[number as usize].fetch_add(cost, Relaxed);
            }
        }
    });
    for (number, taken) in taken.iter().enumerate() {
        let left = limiter.peek(key(u32::try_from(number).unwrap()), 1).remaining;
        assert_eq!(left, 1_000_000 - taken.load(Relaxed), "key {number}");
    }
    let new = (OLD..OLD + KEYS).all(|number| limiter.peek(key(number), 1).remaining == 999_999);
    assert!(new, "a new key was lost");
    assert_eq!(limiter.keys(), (OLD + KEYS) as usize);
}

/// Keys come and go, all at once, thousands of times: chains of lines that were long once do not keep
/// their lines, or one day there would be none left, and a key would go unlimited.
#[test]
fn a_table_that_fills_and_empties_again_and_again_never_runs_out_of_places() {
    const CAP: u32 = 1_533;
    let spec = Spec::new(AlgorithmKind::FixedWindow, 1, Duration::from_secs(366 * 86_400));
    let limiter = KeyedLimiter::new(spec).unwrap().with_max_keys(CAP as usize, OnFull::Refuse);
    for round in 0..if long() { 4_000 } else { 400 } {
        let keys = round * CAP..(round + 1) * CAP;
        for number in keys.clone() {
            assert!(limiter.admits(key(number), 1), "round {round}");
        }
        assert_eq!(limiter.keys(), CAP as usize, "round {round}");
        for number in keys {
            assert!(!limiter.admits(key(number), 1), "forgotten in round {round}");
            let _ = limiter.refund(key(number), 1);
        }
        assert_eq!(limiter.keys(), 0, "round {round}");
    }
}
