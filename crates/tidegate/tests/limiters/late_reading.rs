//! A thread that is held up between reading the clock and holding the limiter.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::{AlgorithmKind, Clock, KeyedLimiter, Limiter, Rule, Spec, Timestamp};
use tidegate_core::{Algorithm, Packing, Visitor};

struct PackingOf;

impl Visitor for PackingOf {
    type Out = Packing;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Packing {
        algorithm.packing()
    }
}

/// A clock whose readings are given one by one; the last stands.
#[derive(Clone, Default)]
struct Readings(Arc<Mutex<Vec<u64>>>);

impl Readings {
    fn are(&self, seconds: &[u64]) {
        *self.0.lock().unwrap() = seconds.iter().rev().copied().collect();
    }
}

impl Clock for Readings {
    fn now(&self) -> Timestamp {
        let mut left = self.0.lock().unwrap();
        let seconds = if left.len() > 1 { left.pop() } else { left.last().copied() };
        Timestamp::from_micros(seconds.unwrap() * 1_000_000)
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}

/// One unit is taken at two hours; the next request read the clock at one hour, was held up, and is
/// decided at two hours as well. Were its old reading believed, a state kept whole would move back
/// with it, as if the clock had stepped, and forget its unit: that is how one well-known limiter
/// exceeded its limit.
#[test]
fn time_taken_before_the_lock_moves_no_state_back() {
    for algorithm in AlgorithmKind::ALL {
        let spec = Spec::new(*algorithm, 1, Duration::from_secs(60));
        // A limiter with an unpacked state reads the time under its lock, so nothing overtakes that reading.
        let packing = Rule::new(spec).unwrap().visit(PackingOf).unwrap();
        let late = packing != Packing::Unpacked;
        // A queue of one place serves one and holds one.
        let most = if *algorithm == AlgorithmKind::LeakyQueue { 2 } else { 1 };
        let clock = Readings::default();

        clock.are(&[3_600]);
        let limiter = Limiter::with_clock(spec, clock.clone()).unwrap();
        // A limiter without a key packs its state only into one word, and a window not at all.
        let late_alone = packing == Packing::One && *algorithm != AlgorithmKind::SlidingWindow;
        assert!(admitted(&clock, late_alone, || limiter.admits(1)) <= most, "{algorithm} alone");

        clock.are(&[3_600]);
        let limiter = KeyedLimiter::with_clock(spec, clock.clone()).unwrap();
        assert!(admitted(&clock, late, || limiter.admits("key", 1)) <= most, "{algorithm} by key");
    }
}

/// Returns the number of admitted requests, of three within a second. The second uses an old reading of the clock, if
/// it can.
fn admitted(clock: &Readings, late: bool, ask: impl Fn() -> bool) -> u32 {
    let second: &[u64] = if late { &[3_600, 7_200] } else { &[7_200] };
    let readings: [&[u64]; 3] = [&[7_200], second, &[7_200]];
    let asked = readings.map(|readings| {
        clock.are(readings);
        ask()
    });
    asked.map(u32::from).iter().sum()
}

/// A packed state does not keep the time of its last unit; it still must not go back to an earlier window, or forget
/// the units of the previous window.
#[test]
fn a_late_reading_does_not_take_a_sliding_counter_back_to_an_earlier_window() {
    let spec = Spec::new(AlgorithmKind::SlidingCounter, 100, Duration::from_secs(10));
    let clock = Readings::default();
    clock.are(&[3_600]);
    let limiter = KeyedLimiter::with_clock(spec, clock.clone()).unwrap();
    let at = |seconds: u64, cost| {
        clock.are(&[seconds]);
        limiter.admits("key", cost)
    };
    assert!(at(3_609, 90), "in one window");
    assert!(at(3_611, 1), "in the next, at its beginning");
    assert!(!at(3_605, 90), "held up since the first");
    assert!(!at(3_611, 50), "90 of the window before weigh 81 now");
    assert!(at(3_611, 18));
}

/// A state with an open reservation is kept whole, with the time of its last unit, next to the words.
#[test]
fn a_late_reading_moves_no_state_back_that_has_an_open_reservation() {
    let mut spec = Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(60));
    spec.capacity = Some(3);
    let clock = Readings::default();
    clock.are(&[3_600]);
    let alone = Limiter::with_clock(spec, clock.clone()).unwrap();
    let keyed = KeyedLimiter::with_clock(spec, clock.clone()).unwrap();
    clock.are(&[7_200]);
    let open = (alone.reserve(1).unwrap(), keyed.reserve("key", 1).unwrap());
    let asks: [&dyn Fn() -> bool; 2] = [&|| alone.admits(1), &|| keyed.admits("key", 1)];
    for ask in asks {
        assert_eq!(admitted(&clock, true, ask), 2, "of three tokens the reservation has one");
    }
    clock.are(&[7_200]);
    assert_eq!(alone.settle(open.0, 0).remaining, 1);
    assert_eq!(keyed.settle("key", open.1, 0).remaining, 1);
}
