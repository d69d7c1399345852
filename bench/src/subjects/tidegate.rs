//! This project: every algorithm alone, and keyed tables of it, by the system's clock.
//!
//! `admits` is asked, for the verdict alone, but in a case for all values. Keys are borrowed; nothing is allocated for one.

use super::{Candidate, Flooded, Subject, sound};
use crate::cases::{Case, Rule, Shape};
use crate::pace::Pace;
use crate::workload::Ask;
use ::tidegate::{AlgorithmKind, Clock, KeyedLimiter, Limiter, MAX_LIMIT, OnFull, Spec, Timestamp};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The name of each kind of limiter.
const NAMES: [(AlgorithmKind, &str); 7] = [
    (AlgorithmKind::FixedWindow, "tidegate/fixed_window"),
    (AlgorithmKind::SlidingWindow, "tidegate/sliding_window"),
    (AlgorithmKind::SlidingCounter, "tidegate/sliding_counter"),
    (AlgorithmKind::SlidingLog, "tidegate/sliding_log"),
    (AlgorithmKind::TokenBucket, "tidegate/token_bucket"),
    (AlgorithmKind::LeakyBucket, "tidegate/leaky_bucket"),
    (AlgorithmKind::LeakyQueue, "tidegate/leaky_queue"),
];

const WINDOWS: [AlgorithmKind; 3] =
    [AlgorithmKind::SlidingWindow, AlgorithmKind::SlidingLog, AlgorithmKind::TokenBucket];

/// Keyed, its log would take 58 KB a key under a limit that is never reached: no table holds a
/// million of those.
const FEW_KEYS: u64 = 1_000;

/// Every algorithm alone and keyed; over a full window, those that keep more than a count.
pub fn offers(case: &Case) -> Vec<Candidate> {
    let rule = case.rule;
    let max_keys = usize::try_from(case.keys).unwrap_or(usize::MAX);
    let table = move |algorithm| keyed(algorithm, rule, max_keys, OnFull::Share);
    let bucket = move || table(AlgorithmKind::TokenBucket);
    let one = move |algorithm| sound(Limiter::new(spec(algorithm, rule)));
    let ask_one = |limiter: &Limiter, _: &Ask| limiter.admits(1);
    let by_text = |limiter: &KeyedLimiter, ask: &Ask| limiter.admits(&ask.key, 1);
    match case.shape {
        Shape::One => named(&NAMES.map(|(algorithm, _)| algorithm), one, ask_one),
        Shape::Checked => named(&NAMES.map(|(algorithm, _)| algorithm), one, |limiter, _| {
            limiter.check(1).is_allowed()
        }),
        Shape::Window => named(&WINDOWS, one, ask_one),
        Shape::Sliding => named(
            &WINDOWS,
            move |algorithm| stepped(algorithm, rule),
            |limiter, _| limiter.admits(1),
        ),
        Shape::Keyed => {
            let mut offered = named(&keyed_algorithms(case.keys), table, by_text);
            let many = "tidegate/token_bucket, check_many";
            offered.push(Candidate::new(many, move || Box::new(Many(bucket()))));
            offered.extend(by_other_keys(bucket));
            offered
        }
        Shape::Table => named(&keyed_algorithms(case.keys), table, by_text),
        Shape::HotKey => {
            let one = move || one(AlgorithmKind::TokenBucket);
            let mut offered = named(&[AlgorithmKind::TokenBucket], table, by_text);
            offered.push(Candidate::asked("tidegate/token_bucket, one limiter", one, ask_one));
            offered
        }
        // Files of their own have them.
        Shape::Counted | Shape::Gate | Shape::Layer => Vec::new(),
    }
}

/// Tables with a cap, for either thing that becomes of keys beyond it.
pub fn flooded(rule: Rule, cap: u64) -> Vec<Flooded> {
    let max_keys = usize::try_from(cap).unwrap_or(usize::MAX);
    let (bucket, window) = (AlgorithmKind::TokenBucket, AlgorithmKind::SlidingWindow);
    let all = [
        ("tidegate/token_bucket, share", bucket, OnFull::Share, rule.capacity),
        ("tidegate/token_bucket, refuse", bucket, OnFull::Refuse, 0),
        ("tidegate/sliding_window, share", window, OnFull::Share, rule.capacity),
        ("tidegate/sliding_window, refuse", window, OnFull::Refuse, 0),
    ];
    let flooded = all.map(|(name, algorithm, on_full, shared)| Flooded {
        candidate: Candidate::asked(
            name,
            move || keyed(algorithm, rule, max_keys, on_full),
            |limiter, ask| limiter.admits(&ask.key, 1),
        ),
        // The caller has one of the places.
        most_admitted: Some(cap - 1 + shared),
    });
    flooded.into()
}

fn keyed_algorithms(keys: u64) -> Vec<AlgorithmKind> {
    let all = NAMES.iter().map(|(algorithm, _)| *algorithm);
    all.filter(|algorithm| *algorithm != AlgorithmKind::SlidingLog || keys <= FEW_KEYS).collect()
}

fn named<T: Send + Sync + 'static>(
    algorithms: &[AlgorithmKind],
    build: impl Fn(AlgorithmKind) -> T + Copy + 'static,
    decide: impl Fn(&T, &Ask) -> bool + Copy + Send + Sync + 'static,
) -> Vec<Candidate> {
    let named = NAMES.into_iter().filter(|(algorithm, _)| algorithms.contains(algorithm));
    named
        .map(|(algorithm, name)| Candidate::asked(name, move || build(algorithm), decide))
        .collect()
}

/// The case's rule: N in W, with W/N = `every`. Where no limit is to be reached it is so high that none is, and so slow
/// that a limiter once used stays in use: a limiter that is as good as new would be dropped, which must not be
/// measured.
pub fn spec(algorithm: AlgorithmKind, rule: Rule) -> Spec {
    let every_us = u64::try_from(rule.every.as_micros()).unwrap_or(u64::MAX);
    if rule.capacity < MAX_LIMIT {
        let window = Duration::from_micros((rule.capacity * every_us).max(1_000));
        let mut spec = Spec::new(algorithm, rule.capacity, window);
        // One leaves at once, before those that wait.
        spec.capacity = (algorithm == AlgorithmKind::LeakyQueue).then(|| rule.capacity - 1);
        return spec;
    }
    let mut spec = match algorithm {
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket | AlgorithmKind::LeakyQueue => {
            let mut spec = Spec::new(algorithm, 1_000_000, Duration::from_secs(366 * 86_400));
            spec.capacity = Some(200_000_000);
            spec
        }
        _ => Spec::new(algorithm, MAX_LIMIT, Duration::from_secs(3_600)),
    };
    if algorithm == AlgorithmKind::SlidingLog {
        spec.resolution = Some(Duration::from_secs(1));
    }
    spec
}

/// One limiter whose clock moves on by W/N at each decision: as soon as N are in the window, one
/// leaves it whenever one is admitted.
fn stepped(algorithm: AlgorithmKind, rule: Rule) -> Limiter<Steps> {
    let step_us = u64::try_from(rule.every.as_micros()).unwrap_or(u64::MAX);
    let clock = Steps { now_us: AtomicU64::new(0), step_us };
    let limiter = sound(Limiter::with_clock(spec(algorithm, rule), clock));
    (0..rule.capacity).for_each(|_| _ = limiter.admits(1));
    limiter
}

/// A clock for one thread.
struct Steps {
    now_us: AtomicU64,
    step_us: u64,
}

impl Clock for Steps {
    fn now(&self) -> Timestamp {
        let now_us = self.now_us.load(Relaxed) + self.step_us;
        self.now_us.store(now_us, Relaxed);
        Timestamp::from_micros(now_us)
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}

fn keyed(algorithm: AlgorithmKind, rule: Rule, max_keys: usize, on_full: OnFull) -> KeyedLimiter {
    sound(KeyedLimiter::new(spec(algorithm, rule))).with_max_keys(max_keys, on_full)
}

/// A token bucket by a number, an address, the bytes of a UUID, and a pair of text and number.
fn by_other_keys(bucket: impl Fn() -> KeyedLimiter + Copy + 'static) -> [Candidate; 4] {
    [
        Candidate::asked("tidegate/token_bucket, u64", bucket, |limiter, ask| {
            limiter.admits(ask.number, 1)
        }),
        Candidate::asked("tidegate/token_bucket, IpAddr", bucket, |limiter, ask| {
            limiter.admits(IpAddr::from(Ipv4Addr::from_bits(ask.number as u32)), 1)
        }),
        Candidate::asked("tidegate/token_bucket, [u8; 16]", bucket, |limiter, ask| {
            limiter.admits(u128::from(ask.number).to_be_bytes(), 1)
        }),
        Candidate::asked("tidegate/token_bucket, (str, u64)", bucket, |limiter, ask| {
            limiter.admits(("user", ask.number), 1)
        }),
    ]
}

/// Asked in batches.
struct Many(KeyedLimiter);

/// Keys in a batch.
const BATCH: usize = 256;

impl Subject for Many {
    fn decide(&self, ask: &Ask) -> bool {
        self.0.admits(&ask.key, 1)
    }

    fn run(&self, asks: &[Ask], _: Pace) -> u64 {
        let mut allowed = 0;
        for batch in asks.chunks(BATCH) {
            let keys: Vec<&str> = batch.iter().map(|ask| ask.key.as_str()).collect();
            allowed += self.0.check_many(&keys).into_iter().filter(|yes| *yes).count() as u64;
        }
        allowed
    }
}
