//! This project: every algorithm alone, and keyed tables of it, by the system's clock.
//!
//! `admits` is asked: the verdict without figures. Keys are borrowed; nothing is allocated for one.

use super::{Candidate, Subject};
use crate::cases::{Case, Rule, Shape};
use crate::pace::Pace;
use crate::workload::Ask;
use ::tidegate::{Algorithm, KeyedLimiter, Limiter, MAX_LIMIT, Micros, OnFull, Spec};

/// What each kind of limiter is called.
const NAMES: [(Algorithm, &str); 7] = [
    (Algorithm::FixedWindow, "tidegate/fixed_window"),
    (Algorithm::SlidingWindow, "tidegate/sliding_window"),
    (Algorithm::SlidingCounter, "tidegate/sliding_counter"),
    (Algorithm::SlidingLog, "tidegate/sliding_log"),
    (Algorithm::TokenBucket, "tidegate/token_bucket"),
    (Algorithm::LeakyBucket, "tidegate/leaky_bucket"),
    (Algorithm::LeakyQueue, "tidegate/leaky_queue"),
];

/// Every algorithm alone; keyed, those whose states fit a word; over a full window, those that keep
/// more than a count.
pub fn offers(case: &Case) -> Vec<Candidate> {
    let rule = case.rule;
    let max_keys = usize::try_from(case.keys).unwrap_or(usize::MAX);
    match case.shape {
        Shape::One => of(&NAMES.map(|(algorithm, _)| algorithm), rule, One::new),
        Shape::Window => of(
            &[Algorithm::SlidingWindow, Algorithm::SlidingLog, Algorithm::TokenBucket],
            rule,
            One::new,
        ),
        Shape::Keyed | Shape::TableAtCap => {
            let keyed = [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindow];
            let mut offered = of(&keyed, rule, move |a, rule| Keyed::new(a, rule, max_keys));
            if case.shape == Shape::Keyed {
                offered.push(Candidate::new("tidegate/token_bucket, check_many", rule, move |rule| {
                    Many(Keyed::new(Algorithm::TokenBucket, rule, max_keys))
                }));
            }
            offered
        }
        Shape::HotKey => {
            let mut offered = of(&[Algorithm::TokenBucket], rule, move |a, rule| Keyed::new(a, rule, 1));
            offered.push(Candidate::new("tidegate/token_bucket, one limiter", rule, |rule| {
                One::new(Algorithm::TokenBucket, rule)
            }));
            offered
        }
    }
}

fn of<S: Subject + 'static>(
    algorithms: &[Algorithm],
    rule: Rule,
    build: impl Fn(Algorithm, Rule) -> S + Copy + 'static,
) -> Vec<Candidate> {
    let named = NAMES.iter().filter(|(algorithm, _)| algorithms.contains(algorithm));
    let candidate = |&(algorithm, name): &(Algorithm, &'static str)| {
        Candidate::new(name, rule, move |rule| build(algorithm, rule))
    };
    named.map(candidate).collect()
}

/// The case's rule: N in W, with W/N = `every`. Where no limit is to be reached it is so high that
/// none is, and so slow that a limiter once used stays in use: one as good as new would be dropped,
/// which is not what is measured.
fn spec(algorithm: Algorithm, rule: Rule) -> Spec {
    let every_us = u64::try_from(rule.every.as_micros()).unwrap_or(u64::MAX);
    if rule.capacity < MAX_LIMIT {
        let window = Micros::from_micros((rule.capacity * every_us).max(1_000));
        return Spec::new(algorithm, rule.capacity, window);
    }
    let mut spec = match algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket | Algorithm::LeakyQueue => {
            let mut spec = Spec::new(algorithm, 1_000_000, Micros::from_secs(366 * 86_400));
            spec.capacity = Some(200_000_000);
            spec
        }
        _ => Spec::new(algorithm, MAX_LIMIT, Micros::from_secs(3_600)),
    };
    if algorithm == Algorithm::SlidingLog {
        spec.resolution = Some(Micros::from_secs(1));
    }
    spec
}

struct One(Limiter);

impl One {
    fn new(algorithm: Algorithm, rule: Rule) -> Self {
        Self(Limiter::new(spec(algorithm, rule)).expect("a sound rule"))
    }
}

impl Subject for One {
    fn decide(&self, _: &Ask) -> bool {
        self.0.admits(1)
    }
}

struct Keyed(KeyedLimiter);

impl Keyed {
    fn new(algorithm: Algorithm, rule: Rule, max_keys: usize) -> Self {
        let limiter = KeyedLimiter::with_max_keys(spec(algorithm, rule), max_keys, OnFull::Share);
        Self(limiter.expect("a sound rule"))
    }
}

impl Subject for Keyed {
    fn decide(&self, ask: &Ask) -> bool {
        self.0.admits(&ask.key, 1)
    }
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
