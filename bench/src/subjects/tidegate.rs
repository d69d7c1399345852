//! This project: every algorithm alone, and keyed tables of it, by the system's clock.
//!
//! `admits` is asked: the verdict without figures. Keys are borrowed; nothing is allocated for one.

use super::{Candidate, Flooded, Subject};
use crate::cases::{Case, Rule, Shape};
use crate::pace::Pace;
use crate::workload::Ask;
use ::tidegate::{
    AlgorithmKind, Clock, Key, KeyedLimiter, Limiter, MAX_LIMIT, OnFull, RuleErrors, Spec,
    Timestamp,
};
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
    let (rule, max_keys) = (case.rule, usize::try_from(case.keys).unwrap_or(usize::MAX));
    let keyed = move |algorithm, rule| Keyed::new(algorithm, rule, max_keys, OnFull::Share);
    let bucket = AlgorithmKind::TokenBucket;
    match case.shape {
        Shape::One => of(&NAMES.map(|(algorithm, _)| algorithm), rule, One::new),
        Shape::Window => of(&WINDOWS, rule, One::new),
        Shape::Sliding => of(&WINDOWS, rule, Stepped::new),
        Shape::Keyed => {
            let mut offered = of(&keyed_algorithms(case.keys), rule, keyed);
            let many = move |rule| Many(keyed(bucket, rule));
            offered.push(Candidate::new("tidegate/token_bucket, check_many", rule, many));
            offered.extend(by_other_keys(rule, move |rule| keyed(bucket, rule)));
            offered
        }
        Shape::TableAtCap | Shape::TableOnTheWay => of(&keyed_algorithms(case.keys), rule, keyed),
        Shape::HotKey => {
            let mut offered = of(&[bucket], rule, keyed);
            let one = move |rule| One::new(bucket, rule);
            offered.push(Candidate::new("tidegate/token_bucket, one limiter", rule, one));
            offered
        }
        // Files of their own have them.
        Shape::Counted | Shape::Gate | Shape::Layer => Vec::new(),
    }
}

/// Tables with a cap, for either thing that becomes of keys beyond it.
pub fn flooded(rule: Rule, cap: u64) -> Vec<Flooded> {
    let max_keys = usize::try_from(cap).unwrap_or(usize::MAX);
    let flooded = |name, algorithm, on_full, shared| Flooded {
        candidate: Candidate::new(name, rule, move |rule| {
            Keyed::new(algorithm, rule, max_keys, on_full)
        }),
        // The caller has one of the places.
        most_admitted: Some(cap - 1 + shared),
    };
    let (share, refuse) = (OnFull::Share, OnFull::Refuse);
    vec![
        flooded("tidegate/token_bucket, share", AlgorithmKind::TokenBucket, share, rule.capacity),
        flooded("tidegate/token_bucket, refuse", AlgorithmKind::TokenBucket, refuse, 0),
        flooded(
            "tidegate/sliding_window, share",
            AlgorithmKind::SlidingWindow,
            share,
            rule.capacity,
        ),
        flooded("tidegate/sliding_window, refuse", AlgorithmKind::SlidingWindow, refuse, 0),
    ]
}

fn keyed_algorithms(keys: u64) -> Vec<AlgorithmKind> {
    let all = NAMES.iter().map(|(algorithm, _)| *algorithm);
    all.filter(|algorithm| *algorithm != AlgorithmKind::SlidingLog || keys <= FEW_KEYS).collect()
}

fn of<S: Subject + 'static>(
    algorithms: &[AlgorithmKind],
    rule: Rule,
    build: impl Fn(AlgorithmKind, Rule) -> S + Copy + 'static,
) -> Vec<Candidate> {
    let named = NAMES.iter().filter(|(algorithm, _)| algorithms.contains(algorithm));
    let candidate = |&(algorithm, name): &(AlgorithmKind, &'static str)| {
        Candidate::new(name, rule, move |rule| build(algorithm, rule))
    };
    named.map(candidate).collect()
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

/// Unwraps a limiter or gate; all its rules are written here.
#[expect(clippy::expect_used, reason = "a rule of this file that is not sound is to be mended")]
fn sound<L>(built: Result<L, RuleErrors>) -> L {
    built.expect("a sound rule")
}

struct One(Limiter);

impl One {
    fn new(algorithm: AlgorithmKind, rule: Rule) -> Self {
        Self(sound(Limiter::new(spec(algorithm, rule))))
    }
}

impl Subject for One {
    fn decide(&self, _: &Ask) -> bool {
        self.0.admits(1)
    }
}

/// One limiter whose clock moves on by W/N at each decision: as soon as N are in the window, one
/// leaves it whenever one is admitted.
struct Stepped(Limiter<Steps>);

impl Stepped {
    fn new(algorithm: AlgorithmKind, rule: Rule) -> Self {
        let every_us = u64::try_from(rule.every.as_micros()).unwrap_or(u64::MAX);
        let limiter = Limiter::with_clock(spec(algorithm, rule), Steps::of(every_us));
        let stepped = Self(sound(limiter));
        (0..rule.capacity).for_each(|_| _ = stepped.0.admits(1));
        stepped
    }
}

impl Subject for Stepped {
    fn decide(&self, _: &Ask) -> bool {
        self.0.admits(1)
    }
}

/// A clock for one thread.
struct Steps {
    now_us: AtomicU64,
    step_us: u64,
}

impl Steps {
    fn of(step_us: u64) -> Self {
        Self { now_us: AtomicU64::new(0), step_us }
    }
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

struct Keyed(KeyedLimiter);

impl Keyed {
    fn new(algorithm: AlgorithmKind, rule: Rule, max_keys: usize, on_full: OnFull) -> Self {
        Self(sound(KeyedLimiter::new(spec(algorithm, rule))).with_max_keys(max_keys, on_full))
    }
}

impl Subject for Keyed {
    fn decide(&self, ask: &Ask) -> bool {
        self.0.admits(&ask.key, 1)
    }
}

/// Asked by another key than text, which is made of the number of the request.
struct By<F>(Keyed, F);

impl<K: Key, F: Fn(&Ask) -> K + Send + Sync> Subject for By<F> {
    fn decide(&self, ask: &Ask) -> bool {
        self.0.0.admits((self.1)(ask), 1)
    }
}

/// A token bucket by a number, an address, the bytes of a UUID, and a pair of text and number.
fn by_other_keys(
    rule: Rule,
    keyed: impl Fn(Rule) -> Keyed + Copy + 'static,
) -> impl Iterator<Item = Candidate> {
    let number = |ask: &Ask| ask.number;
    let address = |ask: &Ask| IpAddr::from(Ipv4Addr::from_bits(ask.number as u32));
    let uuid = |ask: &Ask| u128::from(ask.number).to_be_bytes();
    let pair = |ask: &Ask| ("user", ask.number);
    [
        Candidate::new("tidegate/token_bucket, u64", rule, move |rule| By(keyed(rule), number)),
        Candidate::new("tidegate/token_bucket, IpAddr", rule, move |rule| By(keyed(rule), address)),
        Candidate::new("tidegate/token_bucket, [u8; 16]", rule, move |rule| By(keyed(rule), uuid)),
        Candidate::new("tidegate/token_bucket, (str, u64)", rule, move |rule| {
            By(keyed(rule), pair)
        }),
    ]
    .into_iter()
}

/// The same, asked in batches.
struct Many(Keyed);

/// Keys in a batch.
const BATCH: usize = 256;

impl Subject for Many {
    fn decide(&self, ask: &Ask) -> bool {
        self.0.decide(ask)
    }

    fn run(&self, asks: &[Ask], _: Pace) -> u64 {
        let mut allowed = 0;
        for batch in asks.chunks(BATCH) {
            let keys: Vec<&str> = batch.iter().map(|ask| ask.key.as_str()).collect();
            allowed += self.0.0.check_many(&keys).into_iter().filter(|yes| *yes).count() as u64;
        }
        allowed
    }
}
