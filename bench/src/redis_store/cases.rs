//! The cases of the store: each algorithm, and the log at several lengths.

use std::time::Duration;
use tidegate::{AlgorithmKind, Layout, Rule, Spec};

/// The depth of a pipeline.
pub const DEPTHS: [usize; 2] = [1, 16];
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

/// One algorithm at one length and one depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// The script that decides.
    pub algorithm: AlgorithmKind,
    /// Units per window.
    pub limit: u64,
    /// Requests on their way at once, on each connection.
    pub depth: usize,
    /// The state of the limiters.
    pub state: State,
    /// The number of limiters, which are asked in turn.
    pub keys: usize,
}

/// The state in which the limiters of a case are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All is admitted, because the limit is never reached; stored states live on.
    Unreached,
    /// All is admitted, and stored states have expired when the next request comes.
    New,
    /// All is admitted: for each unit that comes one leaves, nearly as many as the limit are held.
    Sliding,
    /// All is refused.
    Full,
}

/// All cases: every algorithm at each depth, then the logs.
pub fn all() -> Vec<Case> {
    let log = |limit, state| {
        move |depth| Case { algorithm: AlgorithmKind::SlidingLog, limit, depth, state, keys: 16 }
    };
    let others =
        AlgorithmKind::ALL.iter().filter(|algorithm| **algorithm != AlgorithmKind::SlidingLog);
    let others =
        others.flat_map(|algorithm| DEPTHS.map(|depth| Case::unreached(*algorithm, depth)));
    let logs = [(100, State::Sliding), (1_000, State::Sliding), (100, State::Full)];
    let logs = logs.into_iter().flat_map(|(limit, state)| DEPTHS.map(log(limit, state)));
    let new =
        |depth| Case { state: State::New, ..Case::unreached(AlgorithmKind::TokenBucket, depth) };
    others.chain(DEPTHS.map(new)).chain(logs).collect()
}

impl Case {
    fn unreached(algorithm: AlgorithmKind, depth: usize) -> Self {
        Self { algorithm, limit: NEVER_REACHED, depth, state: State::Unreached, keys: 1_000 }
    }

    /// The algorithm, its special settings, and the depth.
    pub fn name(&self) -> String {
        let Self { algorithm, limit, depth, .. } = self;
        match self.state {
            State::Sliding if *limit != 100 => format!("{algorithm} N={limit} p{depth}"),
            State::Full => format!("{algorithm} full p{depth}"),
            State::New => format!("{algorithm} new p{depth}"),
            State::Sliding | State::Unreached => format!("{algorithm} p{depth}"),
        }
    }

    /// The window with which a log keeps its length, at this total rate of requests.
    pub fn window(&self, per_s: f64) -> Duration {
        match self.state {
            State::Unreached | State::Full => LONG,
            State::New => SHORT,
            State::Sliding => {
                let per_key = per_s / self.keys as f64;
                Duration::from_secs_f64(KEPT_FULL * self.limit as f64 / per_key)
            }
        }
    }

    /// The rule with this window; a log is kept in this layout.
    ///
    /// # Errors
    /// When no rule can be so.
    pub fn rule(&self, window: Duration, layout: Layout) -> Result<Rule, String> {
        let window = Duration::from_micros(u64::try_from(window.as_micros()).unwrap_or(u64::MAX));
        let mut spec = Spec::new(self.algorithm, self.limit, window);
        spec.layout = Some(layout).filter(|_| self.algorithm == AlgorithmKind::SlidingLog);
        Rule::new(spec).map_err(|errors| format!("{}: {errors}", self.name()))
    }

    /// Units in a limiter whose memory is reported: as many as a log may hold.
    pub fn fill(&self) -> u64 {
        self.limit.min(1_000)
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
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "a name is there twice");
    }

    #[test]
    fn a_sliding_log_is_nearly_full_at_the_rate_it_was_made_for() {
        let case = all().into_iter().find(|case| case.name() == "sliding_log N=1000 p1").unwrap();
        let window = case.window(32_000.0);
        assert_eq!(window, Duration::from_millis(400));
        assert!(case.rule(window, Layout::String).is_ok());
    }
}
