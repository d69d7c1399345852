//! Times the subjects of a case against each other: in rounds, all of them in each round.

use crate::cases::{Case, Expect};
use crate::clock::{Reading, Span};
use crate::cores;
use crate::growth;
use crate::pace::Pace;
use crate::subjects::{Candidate, Subject};
use crate::workload::Ask;
use std::sync::Barrier;
use std::time::Duration;

/// The time for which one batch of one subject in one round lasts, about.
const BATCH: Duration = Duration::from_millis(30);
/// A batch this long is enough to foresee how many decisions fill [`BATCH`].
const PROBE: Duration = Duration::from_millis(3);
/// A tenth of a batch is decided before it is timed: the caches still hold the previous subject.
const WARM_UP_SHARE: u64 = 10;

/// The figures of one subject in one case.
pub struct Measured {
    /// The subject's name.
    pub subject: &'static str,
    /// CPU nanoseconds per decision, of all threads together; one per round, sorted.
    pub cpu_ns: Vec<f64>,
    /// Wall nanoseconds per decision, over the decisions of all threads; one per round, sorted.
    pub wall_ns: Vec<f64>,
    /// Heap per key, where the case has keys; its maximum on the way if the case asks for that.
    pub bytes_per_key: Option<f64>,
}

/// The middle one of a sorted list; the upper one of two.
pub fn median(sorted: &[f64]) -> f64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The timing of a case.
#[derive(Clone, Copy)]
pub struct Timing {
    /// The number of times that each subject is timed.
    pub rounds: usize,
    /// The separation of decisions.
    pub pace: Pace,
}

/// Builds and fills all `candidates`, then times them over `asks`. `step` is told which candidate is next.
///
/// # Errors
/// When a subject decides otherwise than the case expects: then its time means nothing.
pub fn case(
    case: &Case,
    candidates: &[Candidate],
    asks: &[Ask],
    timing: Timing,
    step: impl Fn(&str),
) -> Result<Vec<Measured>, String> {
    let mut runners = Vec::new();
    for candidate in candidates {
        step(candidate.name);
        runners.push(Runner::prepare(case, candidate, asks, timing.pace)?);
    }
    for round in 0..timing.rounds {
        for place in 0..runners.len() {
            let turn = (round + place) % runners.len();
            step(runners[turn].values.subject);
            runners[turn].round()?;
        }
    }
    Ok(runners.into_iter().map(Runner::finish).collect())
}

/// One subject on its way through the rounds.
struct Runner<'a> {
    case: &'a Case,
    subject: Box<dyn Subject>,
    asks: &'a [Ask],
    pace: Pace,
    at: usize,
    batch: u64,
    values: Measured,
}

impl<'a> Runner<'a> {
    fn prepare(
        case: &'a Case,
        candidate: &Candidate,
        asks: &'a [Ask],
        pace: Pace,
    ) -> Result<Self, String> {
        let (subject, bytes) = growth::filled(candidate, case);
        let values = Measured {
            subject: candidate.name,
            cpu_ns: Vec::new(),
            wall_ns: Vec::new(),
            bytes_per_key: case.has_bytes_per_key().then_some(bytes),
        };
        let mut runner = Self { case, subject, asks, pace, at: 0, batch: 64, values };
        runner.find_batch()?;
        Ok(runner)
    }

    /// Doubles the batch until it lasts long enough to foresee the right size.
    fn find_batch(&mut self) -> Result<(), String> {
        loop {
            let wall = self.decide(self.batch)?.wall();
            if wall >= PROBE {
                let scale = BATCH.as_secs_f64() / wall.as_secs_f64();
                self.batch = ((self.batch as f64 * scale) as u64).max(1);
                return Ok(());
            }
            self.batch = self.batch.saturating_mul(2);
        }
    }

    fn round(&mut self) -> Result<(), String> {
        self.decide(self.batch / WARM_UP_SHARE + 1)?;
        let span = self.decide(self.batch)?;
        let decisions = (self.batch * self.case.threads as u64) as f64;
        self.values.cpu_ns.push(span.cpu.as_secs_f64() * 1e9 / decisions);
        self.values.wall_ns.push(span.wall().as_secs_f64() * 1e9 / decisions);
        Ok(())
    }

    /// `count` decisions on each thread of the case, timed and checked.
    fn decide(&mut self, count: u64) -> Result<Span, String> {
        let walk = Walk { asks: self.asks, at: self.at, count, pace: self.pace };
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
        let Case { name, expect, .. } = self.case;
        let subject = self.values.subject;
        as_expected.then_some(()).ok_or_else(|| {
            format!("{subject} allowed {allowed} of {asked} in `{name}`, which expects {expect:?}")
        })
    }

    fn finish(mut self) -> Measured {
        self.values.cpu_ns.sort_unstable_by(f64::total_cmp);
        self.values.wall_ns.sort_unstable_by(f64::total_cmp);
        self.values
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
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Adds up the numbers of the keys it is asked for.
    #[derive(Default)]
    struct Sum(AtomicU64);

    impl Subject for Sum {
        fn decide(&self, ask: &Ask) -> bool {
            self.0.fetch_add(ask.number, Relaxed);
            true
        }
    }

    #[test]
    fn a_walk_turns_round_at_the_end_of_its_sequence() {
        let asks: Vec<Ask> = (0..4).map(Ask::of).collect();
        let walk = Walk { asks: &asks, at: 3, count: 6, pace: Pace::Apart };
        let sum = Sum::default();
        assert_eq!(walk.decide(&sum), 6);
        assert_eq!(sum.0.load(Relaxed), 3 + 1 + 2 + 3);
        assert_eq!(walk.end(), 1);
    }

    #[test]
    fn every_thread_walks_the_whole_stretch() {
        let asks = [Ask::of(1)];
        let sum = Sum::default();
        let (_, allowed) =
            timed_on(2, &sum, Walk { asks: &asks, at: 0, count: 50, pace: Pace::Apart });
        assert_eq!((allowed, sum.0.load(Relaxed)), (100, 100));
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 3.0, 9.0]), 3.0);
        assert!(median(&[]).is_nan());
    }
}
