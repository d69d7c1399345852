//! Floors: the minimum work of any limiter of a kind, with nothing around it.
//!
//! A decision is a clock read and one word: the time until which the limiter's units are taken
//! (GCRA, its constants not even loaded). Allowing it costs one compare-and-swap,
//! denying it one load.

use super::{Candidate, Subject};
use crate::cases::{Case, Expect, Rule, Shape};
use crate::workload::Ask;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The floors of `case`.
pub fn offers(case: &Case) -> Vec<Candidate> {
    match (case.shape, case.expect) {
        (Shape::One, Expect::Allowed) => one_allow(),
        (Shape::One, Expect::Denied) => {
            vec![
                Candidate::new("floor/clock+load", case.rule, Word::<Micros>::spent),
                Candidate::new("floor/clock ns+load", case.rule, Word::<Nanos>::spent),
            ]
        }
        (Shape::HotKey, _) => {
            vec![Candidate::new("floor/clock+cas", case.rule, Word::<Micros>::free)]
        }
        (Shape::Keyed, _) => {
            let keys = case.keys;
            vec![
                Candidate::new("floor/flat array", case.rule, move |_| FlatArray::new(keys)),
                Candidate::new("floor/flat lines", case.rule, move |_| FlatLines::new(keys)),
            ]
        }
        _ => Vec::new(),
    }
}

fn one_allow() -> Vec<Candidate> {
    let rule = Rule::PLENTY;
    vec![
        Candidate::new("floor/loop", rule, |_| Nothing),
        #[cfg(target_arch = "x86_64")]
        Candidate::new("floor/tsc", rule, |_| ClockOnly(Tsc)),
        Candidate::new("floor/clock", rule, |_| ClockOnly(Micros::start())),
        Candidate::new("floor/clock ns", rule, |_| ClockOnly(Nanos::start())),
        Candidate::new("floor/cas", rule, |_| CasOnly(AtomicU64::new(0))),
        #[cfg(target_arch = "x86_64")]
        Candidate::new("floor/tsc+cas", rule, Word::<Tsc>::free),
        Candidate::new("floor/clock+cas", rule, Word::<Micros>::free),
        Candidate::new("floor/clock ns+cas", rule, Word::<Nanos>::free),
    ]
}

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

/// Decides nothing: the time of the loop itself, which is part of everyone's figure.
struct Nothing;

impl Subject for Nothing {
    fn decide(&self, _: &Ask) -> bool {
        true
    }
}

/// Reads the time and decides nothing.
struct ClockOnly<C>(C);

impl<C: Clock> Subject for ClockOnly<C> {
    fn decide(&self, _: &Ask) -> bool {
        black_box(self.0.read());
        true
    }
}

/// One compare-and-swap, without the time.
struct CasOnly(AtomicU64);

impl Subject for CasOnly {
    fn decide(&self, _: &Ask) -> bool {
        let seen = self.0.load(Relaxed);
        self.0.compare_exchange(seen, seen + 1, Relaxed, Relaxed).is_ok()
    }
}

/// One limiter in one word.
struct Word<C> {
    clock: C,
    taken_until: AtomicU64,
}

impl<C: Clock> Word<C> {
    /// With nothing taken: it never comes near its tolerance.
    fn free(_: Rule) -> Self {
        Self { clock: C::start(), taken_until: AtomicU64::new(0) }
    }

    /// Taken for longer than any run.
    fn spent(_: Rule) -> Self {
        Self { clock: C::start(), taken_until: AtomicU64::new(u64::MAX / 2) }
    }
}

impl<C: Clock> Subject for Word<C> {
    fn decide(&self, _: &Ask) -> bool {
        take(&self.taken_until, self.clock.read())
    }
}

/// One word per key, found by the key's number: no hash, no comparison, no table that grows.
struct FlatArray {
    clock: Micros,
    taken_until: Vec<AtomicU64>,
}

impl FlatArray {
    fn new(keys: u64) -> Self {
        Self { clock: Micros::start(), taken_until: (0..keys).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Subject for FlatArray {
    fn decide(&self, ask: &Ask) -> bool {
        take(&self.taken_until[ask.number as usize], self.clock.read())
    }
}

/// The same with three words to a cache line, which leaves each key room for a fingerprint. It measures the access to
/// that much memory.
struct FlatLines {
    clock: Micros,
    lines: Vec<Line>,
}

#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; 3]);

impl FlatLines {
    fn new(keys: u64) -> Self {
        Self { clock: Micros::start(), lines: (0..=keys / 3).map(|_| Line::default()).collect() }
    }
}

impl Subject for FlatLines {
    fn decide(&self, ask: &Ask) -> bool {
        let Line(words) = &self.lines[(ask.number / 3) as usize];
        take(&words[(ask.number % 3) as usize], self.clock.read())
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
