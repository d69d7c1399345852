//! The command `redis`: the cost of a decision for a shared store, compared with the smallest cost of any script or
//! command.

pub mod commands;
pub mod pipelines;

use crate::harness::{self, Asked, Entry, Options, Sample};
use crate::server::loaded::BY_CPU;
use commands::{Limit, Shape};
use pipelines::{Pipelines, measured};
use std::time::Duration;
use tidegate::{AlgorithmKind, Layout};

/// Connections that ask at once.
const CONNECTIONS: usize = 8;
/// The depth of a pipeline.
const DEPTHS: [usize; 2] = [1, 16];
/// Units that a limiter which is never used up admits in its window.
const NEVER_REACHED: u64 = 1_000_000;
/// The window of limiters that are never used up, and of those that are used up and stay so: of a bucket that
/// is asked twelve times a second, as all are while a thousand of them answer 12,000, something is always used.
const LONG: Duration = Duration::from_secs(86_400);
/// The window of limiters that are as good as new when they are asked again.
const SHORT: Duration = Duration::from_secs(60);
/// The fill level of a log that admits all requests: so far below its limit that a round with a faster server is not
/// refused.
const KEPT_FULL: f64 = 0.8;
/// The time for which a subject is asked before a round, untimed.
const WARM_UP: Duration = Duration::from_millis(50);
/// The number of new attempts at a batch whose decisions changed because the machine's pace did.
const TRIES: usize = 20;
/// The share of the decisions of a sliding log in a batch that may be refused because the server was quicker
/// than just before.
const SURPRISES: f64 = 0.05;

const INCRBY_PEXPIRE: (&str, Shape) = ("floor INCRBY+PEXPIRE", Shape::IncrbyPexpire);
const SORTED_SET: (&str, Shape) = ("floor sorted-set log", Shape::SortedSet);
/// The subjects of all cases, and the others of a log.
const SUBJECTS: [(&str, Shape); 4] = [
    ("tidegate", Shape::Engine(Layout::String)),
    ("tidegate, verdict", Shape::Verdict),
    ("floor INCR", Shape::Incr),
    INCRBY_PEXPIRE,
];
const OF_A_LOG: [(&str, Shape); 2] =
    [("tidegate, sorted_set", Shape::Engine(Layout::SortedSet)), SORTED_SET];

/// One algorithm at one length and one depth.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    algorithm: AlgorithmKind,
    /// Units per window.
    units: u64,
    /// Requests on their way at once, on each connection.
    depth: usize,
    state: State,
    /// The number of limiters, which are asked in turn.
    keys: usize,
}

/// The state in which the limiters of a case are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// All is admitted, because the limit is never reached; stored states live on.
    Unreached,
    /// All is admitted, and stored states have expired when the next request comes.
    New,
    /// All is admitted: for each unit that comes one leaves, nearly as many as the limit are held.
    Sliding,
    /// All is refused.
    Full,
}

/// Every algorithm at each depth, then the logs.
pub fn cases(_: &Options) -> Vec<harness::Case> {
    let cases = all().into_iter().map(|case| {
        let is_log = case.algorithm == AlgorithmKind::SlidingLog;
        let others = OF_A_LOG.into_iter().filter(|_| is_log);
        let subjects = SUBJECTS.into_iter().chain(others);
        let subjects =
            subjects.map(|(name, shape)| Entry::new(name, move || Row::begin(case, shape)));
        harness::Case {
            name: case.name(),
            base: if is_log { SORTED_SET.0 } else { INCRBY_PEXPIRE.0 },
            columns: BY_CPU,
            rounds: 7,
            // Fifty steps of the clock of a process.
            length: Duration::from_millis(500),
            subjects: subjects.collect(),
        }
    });
    cases.collect()
}

fn all() -> Vec<Case> {
    let mut all = Vec::new();
    let unreached = |algorithm, depth| {
        let (units, state) = (NEVER_REACHED, State::Unreached);
        Case { algorithm, units, depth, state, keys: 1_000 }
    };
    for algorithm in AlgorithmKind::ALL.iter().filter(|one| **one != AlgorithmKind::SlidingLog) {
        all.extend(DEPTHS.map(|depth| unreached(*algorithm, depth)));
    }
    let bucket = |depth| unreached(AlgorithmKind::TokenBucket, depth);
    all.extend(DEPTHS.map(|depth| Case { state: State::New, ..bucket(depth) }));
    let algorithm = AlgorithmKind::SlidingLog;
    for (units, state) in [(100, State::Sliding), (1_000, State::Sliding), (100, State::Full)] {
        all.extend(DEPTHS.map(|depth| Case { algorithm, units, depth, state, keys: 16 }));
    }
    all
}

impl Case {
    /// The algorithm, its special settings, and the depth.
    fn name(&self) -> String {
        let Self { algorithm, units, depth, .. } = self;
        match self.state {
            State::Sliding if *units != 100 => format!("{algorithm} N={units} p{depth}"),
            State::Full => format!("{algorithm} full p{depth}"),
            State::New => format!("{algorithm} new p{depth}"),
            State::Sliding | State::Unreached => format!("{algorithm} p{depth}"),
        }
    }

    /// The limit whose window keeps a log at its length, at this total rate of requests.
    fn limit(&self, per_s: f64) -> Limit {
        let window = match self.state {
            State::Unreached | State::Full => LONG,
            State::New => SHORT,
            State::Sliding => {
                let per_key = per_s / self.keys as f64;
                Duration::from_secs_f64(KEPT_FULL * self.units as f64 / per_key)
            }
        };
        Limit { algorithm: self.algorithm, units: self.units, window }
    }

    /// A key for each limiter: different keys for each window, so that no rule changes under a limiter.
    fn key(&self, limit: &Limit, number: usize) -> String {
        let case = self.name().replace(' ', ":");
        format!("tidegate:{case}:{}:{number:04}", limit.window.as_micros())
    }
}

/// A subject of a case, ready to be asked.
struct Row {
    case: Case,
    shape: Shape,
    window: Duration,
    pipelines: Pipelines,
    bytes: Option<u64>,
}

impl Row {
    fn begin(case: Case, shape: Shape) -> Result<Self, String> {
        let mut pipelines = Pipelines::begin(shape, CONNECTIONS)?;
        let hour = Limit { window: Duration::from_secs(3_600), ..case.limit(1.0) };
        // As many units as a log may hold.
        let units = case.units.min(1_000);
        let bytes = pipelines.bytes(&hour, &case.key(&hour, 9_999), units)?;
        let mut row = Self { case, shape, window: Duration::ZERO, pipelines, bytes };
        // Far too long a window for a log that slides: the first round finds the right one.
        row.fill(1.0)?;
        if case.state == State::Full {
            row.pipelines.ask(WARM_UP * 5)?;
        }
        Ok(row)
    }

    fn fill(&mut self, per_s: f64) -> Result<(), String> {
        let limit = self.case.limit(per_s);
        let keys: Vec<_> = (0..self.case.keys).map(|key| self.case.key(&limit, key)).collect();
        self.window = limit.window;
        self.pipelines.fill(&limit, &keys, self.case.depth)
    }

    /// Returns whether its window must fit the rate at which it is asked.
    fn slides(&self) -> bool {
        self.shape.decides() && self.case.state == State::Sliding
    }

    /// A log that slides gets the window that fits the rate of this moment, and is filled by it.
    fn warm_up(&mut self) -> Result<(), String> {
        let mut rate = self.pipelines.ask(WARM_UP)?.per_s();
        if self.slides() {
            // Refusals and admissions have different rates, so this runs twice.
            for _ in 0..2 {
                self.fill(rate)?;
                rate = self.pipelines.ask(self.window * 2)?.per_s();
            }
        }
        Ok(())
    }
}

impl Asked for Row {
    fn sample(&mut self, length: Duration) -> Result<Sample, String> {
        let is_admitted = !self.shape.decides() || self.case.state != State::Full;
        for _ in 0..TRIES {
            self.warm_up()?;
            let (stretch, sample) = measured(&mut self.pipelines, length)?;
            let expected =
                if is_admitted { stretch.admitted } else { stretch.replies - stretch.admitted };
            let surprises = 1.0 - expected as f64 / stretch.replies as f64;
            if surprises <= if self.slides() { SURPRISES } else { 0.0 } {
                return Ok(sample);
            }
            if !self.slides() {
                return Err(format!("decided otherwise than {:?}", self.case.state));
            }
        }
        Err("the machine is too busy to keep a log at its length".to_owned())
    }

    fn finish(&mut self) -> Result<Sample, String> {
        Ok(self.bytes.map(|bytes| ("bytes", bytes as f64)).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_there_at_each_depth() {
        let names: Vec<String> = all().iter().map(Case::name).collect();
        for algorithm in AlgorithmKind::ALL {
            for depth in DEPTHS {
                assert!(names.contains(&format!("{algorithm} p{depth}")), "{algorithm}, {depth}");
            }
        }
    }

    #[test]
    fn a_sliding_log_is_nearly_full_at_the_rate_it_was_made_for() {
        let case = all().into_iter().find(|case| case.name() == "sliding_log N=1000 p1").unwrap();
        let limit = case.limit(32_000.0);
        assert_eq!(limit.window, Duration::from_millis(400));
        assert!(limit.rule(Layout::String).is_ok());
    }
}
