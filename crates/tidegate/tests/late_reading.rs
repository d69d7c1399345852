//! A thread that is held up between reading the clock and holding the limiter.

use std::sync::Mutex;

use tidegate::{Algorithm, Clock, KeyedLimiter, Limiter, Micros, Spec, Timestamp};

/// A clock whose readings are given one by one; the last stands.
struct Readings(Mutex<Vec<u64>>);

impl Readings {
    fn of(ms: &[u64]) -> Self {
        Self(Mutex::new(ms.iter().rev().copied().collect()))
    }
}

impl Clock for Readings {
    fn now(&self) -> Timestamp {
        let mut left = self.0.lock().unwrap();
        let ms = if left.len() > 1 { left.pop() } else { left.last().copied() };
        Timestamp::from_micros(ms.unwrap() * 1_000)
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}

/// One unit is taken at 10 s; the next request read the clock an hour ago by its own account and is
/// decided a millisecond later. Were the old reading believed, the log would move back with it and
/// forget its unit: that is how one well-known limiter exceeded its limit.
#[test]
fn time_taken_before_the_lock_moves_no_state_back() {
    const OLD: u64 = 3_600_000;
    const NEW: u64 = 7_200_000;
    for algorithm in Algorithm::ALL {
        let spec = Spec::new(*algorithm, 1, Micros::from_secs(60));
        // The readings: one when it is built, two for the first request, two for the second.
        let clock = Readings::of(&[OLD, NEW, NEW, OLD, NEW + 1]);
        let limiter = Limiter::with_clock(spec, clock).unwrap();
        let admitted = [1, 1, 1].into_iter().filter(|cost| limiter.admits(*cost)).count();
        // A queue of one place holds a second.
        let most = if *algorithm == Algorithm::LeakyQueue { 2 } else { 1 };
        assert!(admitted <= most, "{algorithm} alone: {admitted}");

        let clock = Readings::of(&[OLD, NEW, NEW, OLD, NEW + 1]);
        let limiter = KeyedLimiter::with_clock(spec, clock).unwrap();
        let admitted = [1, 1, 1].into_iter().filter(|cost| limiter.admits("key", *cost)).count();
        assert!(admitted <= most, "{algorithm} by key: {admitted}");
    }
}
