//! Times a limiter in this process: batches of decisions, of about the same length.

use crate::calls;
use crate::cases::{Case, Expect, Shape};
use crate::clock::{Reading, Span};
use crate::cores;
use crate::growth;
use crate::harness::{self, Asked, Sample};
use crate::pace::Pace;
use crate::subjects::{Candidate, Subject};
use crate::table::{Column, median_of, ratio_of, spread_of};
use crate::workload::{self, Ask};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Barrier;
use std::time::Duration;

/// A batch this long is enough to foresee how many decisions fill a longer batch.
const PROBE: Duration = Duration::from_millis(3);
/// A tenth of a batch is decided before it is timed: the caches still hold the previous subject.
const WARM_UP_SHARE: u64 = 10;

/// Subjects are compared by CPU time, which other processes disturb least.
const COLUMNS: &[Column] = &[
    median_of("ns_cpu", "cpu ns", 1),
    median_of("ns_wall", "wall ns", 1),
    spread_of("ns_cpu", "cpu, least to most", 1),
    ratio_of("ns_cpu", "cpu, of the base"),
    median_of("bytes_per_key", "bytes/key", 0),
];
/// Threads are compared by wall time, because the waits for each other are the point.
const OF_THREADS: &[Column] = &[
    median_of("ns_cpu", "cpu ns", 1),
    median_of("ns_wall", "wall ns", 1),
    spread_of("ns_wall", "wall, least to most", 1),
    ratio_of("ns_wall", "wall, of the base"),
];
/// Layers are compared by instructions.
const OF_LAYERS: &[Column] = &[
    median_of("ns_cpu", "cpu ns", 0),
    spread_of("ns_cpu", "cpu ns, least to most", 0),
    median_of("instructions", "instructions", 0),
    median_of("allocations", "allocations", 1),
    ratio_of("instructions", "instructions, of the base"),
];

/// Makes a case of the harness of the candidates. All of them are asked in the same order of keys.
pub fn case(case: &'static Case, candidates: Vec<Candidate>, pace: Pace) -> harness::Case {
    let asks = Rc::new(OnceCell::new());
    let subjects = candidates.into_iter().map(|candidate| {
        let asks = Rc::clone(&asks);
        harness::Entry::new(candidate.name, move || {
            let asks = asks.get_or_init(|| Rc::from(workload::sequence(case.keys, case.order)));
            Runner::prepare(case, candidate, Rc::clone(asks), pace)
        })
    });
    let columns = match case.threads {
        _ if case.shape == Shape::Layer => OF_LAYERS,
        1 => COLUMNS,
        _ => OF_THREADS,
    };
    harness::Case {
        name: format!("{}/{}", case.group, case.name),
        base: case.base,
        columns,
        rounds: 9,
        length: Duration::from_millis(30),
        subjects: subjects.collect(),
    }
}

/// A limiter that knows every key of its case.
struct Runner {
    case: &'static Case,
    candidate: Candidate,
    subject: Box<dyn Subject>,
    asks: Rc<[Ask]>,
    pace: Pace,
    at: usize,
    /// Decisions in a nanosecond, on one thread.
    rate: f64,
    bytes_per_key: f64,
}

impl Runner {
    fn prepare(
        case: &'static Case,
        candidate: Candidate,
        asks: Rc<[Ask]>,
        pace: Pace,
    ) -> Result<Self, String> {
        let (subject, bytes_per_key) = growth::filled(&candidate, case.keys);
        let (at, rate) = (0, 0.0);
        let mut runner = Self { case, candidate, subject, asks, pace, at, rate, bytes_per_key };
        runner.find_rate()?;
        Ok(runner)
    }

    /// Doubles the batch until it lasts long enough to foresee the right size.
    fn find_rate(&mut self) -> Result<(), String> {
        let mut batch: u64 = 64;
        while self.rate == 0.0 {
            let wall = self.decide(batch)?.wall();
            if wall >= PROBE {
                self.rate = batch as f64 / wall.as_nanos() as f64;
            }
            batch = batch.saturating_mul(2);
        }
        Ok(())
    }

    /// `count` decisions on each thread of the case, timed and checked.
    fn decide(&mut self, count: u64) -> Result<Span, String> {
        let walk = Walk { asks: &self.asks, at: self.at, count, pace: self.pace };
        let (span, allowed) = match self.case.threads {
            1 => timed(&*self.subject, walk),
            threads => timed_on(threads, &*self.subject, walk),
        };
        self.at = walk.end();
        self.check(allowed, count * self.case.threads as u64)?;
        Ok(span)
    }

    fn check(&self, allowed: u64, asked: u64) -> Result<(), String> {
        let as_expected = match self.case.expect {
            Expect::Allowed => allowed == asked,
            Expect::Denied => allowed == 0,
            Expect::Either => true,
        };
        let expect = self.case.expect;
        as_expected
            .then_some(())
            .ok_or_else(|| format!("allowed {allowed} of {asked}, and its case expects {expect:?}"))
    }
}

impl Asked for Runner {
    fn sample(&mut self, length: Duration) -> Result<Sample, String> {
        let batch = ((self.rate * length.as_nanos() as f64) as u64).max(1);
        self.decide(batch / WARM_UP_SHARE + 1)?;
        let span = self.decide(batch)?;
        let decisions = (batch * self.case.threads as u64) as f64;
        let of_one = |time: Duration| time.as_secs_f64() * 1e9 / decisions;
        Ok(vec![("ns_cpu", of_one(span.cpu)), ("ns_wall", of_one(span.wall()))])
    }

    fn finish(&mut self) -> Result<Sample, String> {
        if self.case.shape == Shape::Layer {
            let allocations = ("allocations", calls::allocations(&self.candidate, self.case));
            let instructions = calls::instructions(&self.candidate, self.case)?;
            let instructions = instructions.map(|count| ("instructions", count));
            return Ok(std::iter::once(allocations).chain(instructions).collect());
        }
        let is_table = self.case.shape == Shape::Keyed && self.case.keys > 1;
        Ok(is_table.then_some(("bytes_per_key", self.bytes_per_key)).into_iter().collect())
    }
}

/// A stretch of a sequence that is walked round and round.
#[derive(Clone, Copy)]
struct Walk<'a> {
    asks: &'a [Ask],
    at: usize,
    count: u64,
    pace: Pace,
}

impl Walk<'_> {
    fn end(&self) -> usize {
        ((self.at as u64 + self.count) % self.asks.len() as u64) as usize
    }

    /// Decides the whole stretch; returns the number of allowed decisions.
    fn decide(self, subject: &dyn Subject) -> u64 {
        let (mut at, mut left, mut allowed) = (self.at, self.count, 0);
        while left > 0 {
            let stretch = (self.asks.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
            allowed += subject.run(&self.asks[at..at + stretch], self.pace);
            left -= stretch as u64;
            at = (at + stretch) % self.asks.len();
        }
        allowed
    }
}

fn timed(subject: &dyn Subject, walk: Walk) -> (Span, u64) {
    let start = Reading::now();
    let allowed = walk.decide(subject);
    (start.until_now(), allowed)
}

/// The same stretch on each of `threads` threads, let go together, each on a core of its own.
fn timed_on(threads: usize, subject: &dyn Subject, walk: Walk) -> (Span, u64) {
    let gate = Barrier::new(threads);
    let one = |number| {
        // Refused, it is as without: slower threads are seen in the figures.
        let _ = cores::stay_on(number);
        gate.wait();
        timed(subject, walk)
    };
    let one = &one;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || one(number))).collect();
        let ended = all.into_iter().map(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let both = |(span, allowed): (Span, u64), (other, more)| (span.join(other), allowed + more);
        ended.reduce(both).unwrap_or_else(|| timed(subject, walk))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_walk_turns_round_at_the_end_of_its_sequence() {
        let asks: Vec<Ask> = (0..4).map(Ask::of).collect();
        let walk = Walk { asks: &asks, at: 3, count: 6, pace: Pace::Apart };
        let sum = AtomicU64::default();
        assert_eq!(walk.decide(&sum), 6);
        assert_eq!(sum.into_inner(), 3 + 1 + 2 + 3);
        assert_eq!(walk.end(), 1);
    }

    #[test]
    fn every_thread_walks_the_whole_stretch() {
        let asks = [Ask::of(1)];
        let sum = AtomicU64::default();
        let (_, allowed) =
            timed_on(2, &sum, Walk { asks: &asks, at: 0, count: 50, pace: Pace::Apart });
        assert_eq!((allowed, sum.into_inner()), (100, 100));
    }
}
