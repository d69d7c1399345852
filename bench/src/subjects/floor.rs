//! Floors: the minimum work of any limiter of a kind, with nothing around it.
//!
//! A decision is a clock read and one word: the time until which the limiter's units are taken
//! (GCRA, its constants not even loaded). Allowing it costs one compare-and-swap,
//! denying it one load.

use super::Candidate;
use crate::cases::{Case, Expect, Rule, Shape};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The floors of `case`.
pub fn offers(case: &Case) -> Vec<Candidate> {
    let keys = case.keys;
    match (case.shape, case.expect) {
        (Shape::One, Expect::Allowed) => one_allow(),
        (Shape::One, Expect::Denied) => vec![
            word::<Micros>("floor/clock+load", SPENT),
            word::<Nanos>("floor/clock ns+load", SPENT),
        ],
        (Shape::HotKey, _) => vec![word::<Micros>("floor/clock+cas", FREE)],
        (Shape::Keyed, _) => vec![flat_array(keys), flat_lines(keys)],
        _ => Vec::new(),
    }
}

fn one_allow() -> Vec<Candidate> {
    vec![
        // Nothing but the loop, which is part of all numbers.
        Candidate::asked("floor/loop", || (), |(), _| true),
        #[cfg(target_arch = "x86_64")]
        clock::<Tsc>("floor/tsc"),
        clock::<Micros>("floor/clock"),
        clock::<Nanos>("floor/clock ns"),
        Candidate::asked("floor/cas", AtomicU64::default, |word, _| {
            let seen = word.load(Relaxed);
            word.compare_exchange(seen, seen + 1, Relaxed, Relaxed).is_ok()
        }),
        #[cfg(target_arch = "x86_64")]
        word::<Tsc>("floor/tsc+cas", FREE),
        word::<Micros>("floor/clock+cas", FREE),
        word::<Nanos>("floor/clock ns+cas", FREE),
    ]
}

/// Reads the time and decides nothing.
fn clock<C: Clock + 'static>(name: &'static str) -> Candidate {
    Candidate::asked(name, C::start, |clock, _| {
        black_box(clock.read());
        true
    })
}

/// A word of which nothing is taken: it never comes near its tolerance.
const FREE: u64 = 0;
/// A word that is taken for longer than any run.
const SPENT: u64 = u64::MAX / 2;

/// One limiter in one word.
fn word<C: Clock + 'static>(name: &'static str, taken_until: u64) -> Candidate {
    let build = move || (C::start(), AtomicU64::new(taken_until));
    Candidate::asked(name, build, |(clock, word), _| take(word, clock.read()))
}

/// One word per key, found by the key's number: no hash, no comparison, no table that grows.
fn flat_array(keys: u64) -> Candidate {
    let words = move || (0..keys).map(|_| AtomicU64::new(FREE)).collect::<Vec<_>>();
    let build = move || (Micros::start(), words());
    Candidate::asked("floor/flat array", build, |(clock, words), ask| {
        take(&words[ask.number as usize], clock.read())
    })
}

/// The same with three words to a cache line, which leaves each key room for a fingerprint. It measures the access to
/// that much memory.
fn flat_lines(keys: u64) -> Candidate {
    let lines = move || (0..=keys / 3).map(|_| Line::default()).collect::<Vec<_>>();
    let build = move || (Micros::start(), lines());
    Candidate::asked("floor/flat lines", build, |(clock, lines), ask| {
        let Line(words) = &lines[(ask.number / 3) as usize];
        take(&words[(ask.number % 3) as usize], clock.read())
    })
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; 3]);

/// The clock of a floor, in its own units.
pub(super) trait Clock: Send + Sync {
    fn start() -> Self;
    fn read(&self) -> u64;
}

/// The `quanta` crate: nanoseconds since the start, by its raw difference.
struct Nanos {
    clock: quanta::Clock,
    began: u64,
}

impl Clock for Nanos {
    fn start() -> Self {
        let clock = quanta::Clock::new();
        Self { began: clock.raw(), clock }
    }

    fn read(&self) -> u64 {
        self.clock.delta_as_nanos(self.began, self.clock.raw())
    }
}

/// The same in microseconds, the unit of an engine that counts in them: a division more.
pub(super) struct Micros(Nanos);

impl Clock for Micros {
    fn start() -> Self {
        Self(Nanos::start())
    }

    fn read(&self) -> u64 {
        self.0.read() / 1_000
    }
}

/// The processor's cycle counter, as it is: no conversion into any unit of time.
#[cfg(target_arch = "x86_64")]
struct Tsc;

#[cfg(target_arch = "x86_64")]
impl Clock for Tsc {
    fn start() -> Self {
        Self
    }

    #[allow(unsafe_code)]
    fn read(&self) -> u64 {
        // SAFETY: `rdtsc` exists on every x86_64 and touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
}

/// Takes a unit of one tick of the clock, if less than [`TOLERANCE`] are taken ahead of `now`.
pub(super) fn take(taken_until: &AtomicU64, now: u64) -> bool {
    let mut seen = taken_until.load(Relaxed);
    loop {
        if seen >= now + TOLERANCE {
            return false;
        }
        let next = seen.max(now) + 1;
        match taken_until.compare_exchange_weak(seen, next, Relaxed, Relaxed) {
            Ok(_) => return true,
            Err(other) => seen = other,
        }
    }
}

const TOLERANCE: u64 = Rule::PLENTY.capacity;
