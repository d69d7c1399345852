//! The statistics of limiters: they change no decision, and count each at the time when it was made.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Clock, KeyedLimiter, Limiter, ManualClock, Spec, Statistics, Timestamp,
};

/// A clock that moves on with each reading, by more than half a second, so that the next reading counts in another half
/// second; its copies are the same clock.
#[derive(Clone, Debug)]
struct Ticking {
    us: Arc<AtomicU64>,
    never_steps_back: bool,
}

const TICK_US: u64 = 600_000;

impl Ticking {
    fn new(never_steps_back: bool) -> Self {
        Self { us: Arc::new(AtomicU64::new(1_699_999_200_000_000)), never_steps_back }
    }

    fn moved_by(&self, us: u64) {
        self.us.fetch_add(us, Relaxed);
    }

    /// Returns the number of readings during `work`.
    fn readings<T>(&self, work: impl FnOnce() -> T) -> (u64, T) {
        let before = self.us.load(Relaxed);
        let done = work();
        ((self.us.load(Relaxed) - before) / TICK_US, done)
    }
}

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.us.fetch_add(TICK_US, Relaxed))
    }

    fn never_steps_back(&self) -> bool {
        self.never_steps_back
    }
}

/// Every algorithm, with states that are packed and with states that are kept whole, and one unlimited.
fn limiters() -> impl Iterator<Item = (Spec, bool)> {
    let specs = AlgorithmKind::ALL.iter().flat_map(|algorithm| {
        [Spec::new(*algorithm, 7, Duration::from_millis(900)), Spec::unlimited(*algorithm)]
    });
    specs.flat_map(|spec| [(spec, true), (spec, false)])
}

/// Two of the same, one counted by the limiter and one by hand, of random requests.
#[test]
fn a_limiter_counts_what_it_decided_when_it_decided() {
    for (spec, packed) in limiters() {
        let clock = Ticking::new(packed);
        let by_hand = Ticking::new(packed);
        let one = Limiter::with_clock(spec, clock.clone()).unwrap();
        let other = Limiter::with_clock(spec, by_hand.clone()).unwrap();
        let keyed = KeyedLimiter::with_clock(spec, clock.clone()).unwrap();
        let other_keyed = KeyedLimiter::with_clock(spec, by_hand.clone()).unwrap();
        let counted = Statistics::with_clock(Timestamp::EPOCH);
        let expected = Statistics::with_clock(Timestamp::EPOCH);
        let mut random = Rng::new(20_261_122);
        for _ in 0..2_000 {
            let (cost, key) = (random.below(4), [b'a' + u8::try_from(random.below(3)).unwrap()]);
            // Statistics by hand use the time of the next reading.
            let now = Timestamp::from_micros(by_hand.us.load(Relaxed));
            let (by_limiter, plain) = match random.below(2) {
                0 => (one.admits_counted(cost, &counted), other.admits(cost)),
                _ => (keyed.admits_counted(key, cost, &counted), other_keyed.admits(key, cost)),
            };
            assert_eq!(by_limiter, plain, "{spec:?}");
            match plain {
                true => expected.pass_at(cost, now),
                false => expected.block_at(cost, now),
            }
            // Sets both clocks to the same time again, not long after the later of the last readings.
            let latest =
                clock.us.load(Relaxed).max(by_hand.us.load(Relaxed)) + random.below(300_000);
            clock.us.store(latest, Relaxed);
            by_hand.us.store(latest, Relaxed);
            let now = Timestamp::from_micros(latest);
            assert_eq!(counted.second_at(now), expected.second_at(now), "{spec:?}");
            assert_eq!(counted.minute_at(now), expected.minute_at(now), "{spec:?}");
        }
    }
}

#[test]
fn counting_reads_no_clock_that_the_decision_has_read() {
    for (spec, packed) in limiters() {
        let clock = Ticking::new(packed);
        let limiter = Limiter::with_clock(spec, clock.clone()).unwrap();
        let keyed = KeyedLimiter::with_clock(spec, clock.clone()).unwrap();
        let statistics = Statistics::with_clock(Timestamp::EPOCH);
        for _ in 0..20 {
            let (alone, _) = clock.readings(|| limiter.admits_counted(1, &statistics));
            let (by_key, _) = clock.readings(|| keyed.admits_counted("key", 1, &statistics));
            assert_eq!((alone, by_key), (1, 1), "{spec:?}");
            clock.moved_by(50_000);
        }
        let counted = statistics.minute_at(clock.now());
        assert_eq!(counted.pass + counted.block, 40);
    }
}

/// While a caller waits, later callers are refused, and counted at that time.
#[test]
fn what_is_refused_behind_a_line_is_counted_as_well() {
    let clock = ManualClock::new();
    clock.advance_to(Timestamp::from_micros(1_699_999_200_000_000));
    let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(60));
    let limiter = Limiter::with_clock(spec, clock.clone()).unwrap();
    let keyed = KeyedLimiter::with_clock(spec, clock.clone()).unwrap();
    let statistics = Statistics::with_clock(clock.clone());
    assert!(limiter.admits_counted(1, &statistics) && keyed.admits_counted("key", 1, &statistics));
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting = pin!(limiter.acquire(1, Duration::from_secs(100)));
    let mut waiting_by_key = pin!(keyed.acquire("key", 1, Duration::from_secs(100)));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert!(waiting_by_key.as_mut().poll(&mut context).is_pending());

    clock.advance(Duration::from_secs(5));
    assert!(!limiter.admits_counted(1, &statistics));
    assert!(!keyed.admits_counted("key", 1, &statistics));
    // No caller waits for this key, but a caller waits for another key.
    assert!(keyed.admits_counted("other", 1, &statistics));
    let second = statistics.second();
    assert_eq!((second.pass, second.block), (1, 2));
    assert_eq!(statistics.minute().pass, 3);
}
