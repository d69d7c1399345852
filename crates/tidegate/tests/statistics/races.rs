//! Statistics under eight threads, with a clock that runs on or stands still: exact to the unit.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use testkit::threads::{self, long};
use testkit::traffic::Rng;
use tidegate::{Resources, Snapshot, Statistics, Timestamp};

const THREADS: u64 = 8;
const TODAY_US: u64 = 1_699_999_200_000_000;

/// Verbs of each thread.
const VERBS: u64 = 2_000;

fn rounds() -> u64 {
    if long() { 400 } else { 20 }
}

/// Statistics, and the time that all threads share.
struct Shared {
    stats: Statistics<Timestamp>,
    now_us: AtomicU64,
}

impl Shared {
    fn new() -> Self {
        let stats = Statistics::with_clock(Timestamp::EPOCH);
        Self { stats, now_us: AtomicU64::new(TODAY_US) }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_us.load(Relaxed))
    }

    /// The time, moved on first.
    fn later(&self, by_us: u64) -> Timestamp {
        Timestamp::from_micros(self.now_us.fetch_add(by_us, Relaxed) + by_us)
    }
}

/// Runs `work` on eight threads that begin together, each with a generator of its own; adds up what
/// they say they counted.
fn together(seed: u64, work: impl Fn(&mut Rng) -> Snapshot + Sync) -> Snapshot {
    let sum = Mutex::new(Snapshot::default());
    threads::together(THREADS, |number, _| {
        let counted = work(&mut Rng::new(seed * THREADS + number));
        let mut sum = sum.lock().unwrap();
        *sum = plus(*sum, counted);
    });
    sum.into_inner().unwrap()
}

fn plus(mut sum: Snapshot, other: Snapshot) -> Snapshot {
    sum.pass += other.pass;
    sum.block += other.block;
    sum.exception += other.exception;
    sum.success += other.success;
    sum.rt_sum_us += other.rt_sum_us;
    sum.rt_min_us = sum.rt_min_us.into_iter().chain(other.rt_min_us).min();
    sum.occupied += other.occupied;
    sum
}

/// Counts something, and adds it to what this thread has counted.
fn count(stats: &Statistics<Timestamp>, rng: &mut Rng, now: Timestamp, counted: &mut Snapshot) {
    let amount = rng.between(1, 1_000);
    match rng.below(4) {
        0 => {
            stats.pass_at(amount, now);
            counted.pass += amount;
        }
        1 => {
            stats.block_at(amount, now);
            counted.block += amount;
        }
        2 => {
            stats.exception_at(amount, now);
            counted.exception += amount;
        }
        _ => {
            stats.success_at(Duration::from_micros(amount), now);
            counted.success += 1;
            counted.rt_sum_us += amount;
            counted.rt_min_us = counted.rt_min_us.into_iter().chain([amount]).min();
        }
    }
}

/// The clock goes through less than a minute, in a hundred half seconds and more.
#[test]
fn all_that_is_counted_while_half_seconds_begin_is_in_the_seconds() {
    for seed in 0..rounds() {
        let shared = Shared::new();
        let counted = together(seed, |rng| {
            let mut counted = Snapshot::default();
            for _ in 0..VERBS {
                let now = shared.later(rng.below(55_000_000 * 2 / (THREADS * VERBS)));
                count(&shared.stats, rng, now, &mut counted);
            }
            counted
        });
        let (minute, seconds) =
            (shared.stats.minute_at(shared.now()), shared.stats.seconds_at(shared.now()));
        assert_eq!(minute, counted, "seed {seed}");
        let sum = seconds.into_iter().map(|(_, second)| second).fold(Snapshot::default(), plus);
        assert_eq!(sum, counted, "seed {seed}");
        assert_eq!(shared.stats.minute_at(shared.later(60_000_000)), Snapshot::default());
    }
}

/// Units are counted at times that run far ahead of one another, some of them late, and are read all the while. No
/// reader ever sees more than was counted, or less than it counted itself.
#[test]
fn a_reader_sees_its_own_counts_and_never_too_many() {
    for seed in 0..rounds() {
        let shared = Shared::new();
        let begun = AtomicU64::new(0);
        together(seed, |rng| {
            let mut own = 0;
            for _ in 0..VERBS / 4 {
                let now = shared
                    .later(rng.below(10_000))
                    .minus(Duration::from_micros(rng.below(900_000)));
                begun.fetch_add(1, Relaxed);
                shared.stats.success_at(Duration::from_micros(3), now);
                own += 1;
                let minute = shared.stats.minute_at(now);
                assert!(minute.success >= own, "lost: {minute:?}, own {own}");
                assert!(minute.success <= begun.load(Relaxed), "too many: {minute:?}");
                assert_eq!(minute.rt_min_us, Some(3));
            }
            Snapshot::default()
        });
    }
}

#[test]
fn eight_threads_get_the_limit_and_the_places_ahead_to_the_unit() {
    const LIMIT: u64 = 1_000;
    for seed in 0..rounds() {
        let shared = Shared::new();
        let got = together(seed, |_| {
            let mut got = Snapshot::default();
            for _ in 0..VERBS / 10 {
                match shared.stats.occupy_at(1, LIMIT, 300, shared.now()) {
                    Some(Duration::ZERO) => got.pass += 1,
                    Some(_) => got.occupied += 1,
                    None => got.block += 1,
                }
            }
            got
        });
        assert_eq!((got.pass, got.occupied, got.block), (LIMIT, 300, 300), "seed {seed}");
        let now = shared.later(1_000_000);
        assert_eq!(
            (shared.stats.second_at(now).pass, shared.stats.minute_at(now).pass),
            (300, 1_300)
        );
    }
}

#[test]
fn no_second_passes_more_than_the_limit_while_half_seconds_begin() {
    const LIMIT: u64 = 50;
    for seed in 0..rounds() {
        let shared = Shared::new();
        let got = together(seed, |rng| {
            let mut got = Snapshot::default();
            for _ in 0..VERBS / 2 {
                let (now, units) = (shared.later(rng.below(6_000)), rng.between(1, 4));
                let most = rng.pick([0, 10, 40]);
                if let Some(wait) = shared.stats.occupy_at(units, LIMIT, most, now) {
                    got.pass += units;
                    got.occupied += if wait > Duration::ZERO { units } else { 0 };
                }
                let second = shared.stats.second_at(now);
                assert!(second.pass <= LIMIT, "{second:?}");
            }
            got
        });
        let minute = shared.stats.minute_at(shared.later(1_000_000));
        assert_eq!((minute.pass, minute.occupied), (got.pass, got.occupied), "seed {seed}");
        assert!(got.occupied > 0, "nothing was borrowed");
    }
}

#[test]
fn in_flight_is_nobody_when_all_have_ended() {
    let resources = Resources::with_clock(3, Timestamp::EPOCH);
    together(0, |rng| {
        for _ in 0..VERBS {
            let mut entry = resources.entry(rng.pick(["a", "b", "c"])).unwrap();
            if rng.chance(20) {
                entry.fail();
            }
        }
        Snapshot::default()
    });
    let all = resources.all();
    assert!(all.iter().all(|(_, stats)| stats.in_flight() == 0));
    let minutes = all.iter().map(|(_, stats)| stats.minute()).fold(Snapshot::default(), plus);
    assert_eq!(minutes.pass, THREADS * VERBS);
    assert_eq!(minutes.success + minutes.exception, minutes.pass);
}
