//! Every algorithm with one limit over one trace.

use tidegate::{Algorithm, Limit, Micros, Policy, PolicyErrors, RuleSpec, Spec};

use crate::plot::{Bins, Lane, Timeline};
use crate::replay::Replay;
use crate::report::{Report, align_right, grouped, new_table, percent, span_text};
use crate::trace::Event;

/// The algorithms side by side, each with limiters of its own.
#[derive(Debug)]
pub struct Comparison {
    limit: u64,
    window: Micros,
    runs: Vec<Run>,
}

/// One algorithm's part.
#[derive(Debug)]
struct Run {
    algorithm: Algorithm,
    replay: Replay,
    report: Report,
    drawn: Option<Drawn>,
}

/// What a picture shows of it.
#[derive(Debug)]
struct Drawn {
    bins: Bins,
    admitted: Vec<u64>,
    refused: Vec<u64>,
    leaves: Option<Vec<u64>>,
}

impl Comparison {
    /// Every algorithm with `limit` units per `window`: one limiter for each combination of the `key`
    /// entries' values, or one for all without any.
    ///
    /// # Errors
    /// When the limit or the window can not be had.
    pub fn new(limit: u64, window: Micros, key: &[String]) -> Result<Self, PolicyErrors> {
        let run = |algorithm: &Algorithm| {
            let rule = RuleSpec::new(algorithm.name(), fitting(*algorithm, limit, window));
            let policy = Policy::new(vec![rule.key(key.iter().cloned())])?;
            let report = Report::new(&policy);
            Ok(Run { algorithm: *algorithm, replay: Replay::new(policy), report, drawn: None })
        };
        let runs = Algorithm::ALL.iter().map(run).collect::<Result<_, _>>()?;
        Ok(Self { limit, window, runs })
    }

    /// The same, and keeps what a picture of `first_us` to `last_us` needs.
    #[must_use]
    pub fn drawn(mut self, bins: Bins) -> Self {
        for run in &mut self.runs {
            let leaves = (run.algorithm == Algorithm::LeakyQueue).then(|| bins.zeros());
            run.drawn = Some(Drawn { bins, admitted: bins.zeros(), refused: bins.zeros(), leaves });
        }
        self
    }

    /// Decides one request by every algorithm.
    pub fn record(&mut self, event: &Event) {
        for run in &mut self.runs {
            let answer = run.replay.decide(event);
            run.report.record(event, &answer);
            if let Some(drawn) = &mut run.drawn {
                drawn.record(event.at_us, answer.is_allowed(), answer.delay());
            }
        }
    }

    /// A line for each algorithm: what it admitted and refused, its fullest window beside its bound.
    #[must_use]
    pub fn table(&self) -> String {
        let header =
            ["algorithm", "admitted", "refused", "", "fullest window", "bound", "longest delay"];
        let mut table = new_table(&header);
        (1..=6).for_each(|column| align_right(&mut table, column));
        for run in &self.runs {
            let Some(rule) = run.report.rules.first() else {
                continue;
            };
            table.add_row([
                run.algorithm.name().to_owned(),
                grouped(run.report.requests - run.report.refused),
                grouped(run.report.refused),
                percent(run.report.refused, run.report.requests),
                grouped(rule.worst.units()),
                rule.bound().map_or("none".to_owned(), grouped),
                rule.longest_delay.to_string(),
            ]);
        }
        format!("{}\n{table}\n", self.headline())
    }

    /// The picture: one lane for each algorithm. Empty unless [`Comparison::drawn`] was asked for.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        let bins = self.runs.first().and_then(|run| run.drawn.as_ref()).map(|drawn| drawn.bins);
        Timeline {
            title: format!("{} per {}, by algorithm", grouped(self.limit), self.window),
            subtitle: self.headline(),
            start_us: bins.map_or(0, |bins| bins.start_us),
            bin_us: bins.map_or(1, |bins| bins.bin_us),
            lanes: self.runs.iter().filter_map(Run::lane).collect(),
        }
    }

    fn headline(&self) -> String {
        let Some(report) = self.runs.first().map(|run| &run.report) else {
            return String::new();
        };
        match report.first_at_us {
            Some(first) => {
                let span = span_text(first, report.last_at_us);
                format!(
                    "{} requests {span}, {} per {}",
                    grouped(report.requests),
                    grouped(self.limit),
                    self.window
                )
            }
            None => "No requests in this trace.".to_owned(),
        }
    }
}

impl Drawn {
    fn record(&mut self, at_us: u64, allowed: bool, delay: Micros) {
        let counts = if allowed { &mut self.admitted } else { &mut self.refused };
        self.bins.add(counts, at_us, 1);
        if let Some(leaves) = self.leaves.as_mut().filter(|_| allowed) {
            self.bins.add(leaves, at_us.saturating_add(delay.as_micros()), 1);
        }
    }
}

impl Run {
    fn lane(&self) -> Option<Lane> {
        let (drawn, rule) = (self.drawn.as_ref()?, self.report.rules.first()?);
        let bound =
            rule.bound().map_or(String::new(), |bound| format!(" of at most {}", grouped(bound)));
        let mut note = format!(
            "admitted {}, refused {}; fullest window {}{bound}",
            grouped(self.report.requests - self.report.refused),
            grouped(self.report.refused),
            grouped(rule.worst.units()),
        );
        if !rule.longest_delay.is_zero() {
            note.push_str(&format!("; held up to {}", rule.longest_delay));
        }
        Some(Lane {
            title: self.algorithm.name().to_owned(),
            note,
            admitted: drawn.admitted.clone(),
            refused: drawn.refused.clone(),
            leaves: drawn.leaves.clone(),
        })
    }
}

/// The algorithm's words for a limit, such that a long window with a large limit is not refused for
/// the memory of a log or for buckets that do not divide it.
fn fitting(algorithm: Algorithm, limit: u64, window: Micros) -> Spec {
    let mut spec = Spec::new(algorithm, limit, window);
    if algorithm == Algorithm::SlidingWindow {
        spec.buckets = (1..=10).rev().find(|buckets| window.as_micros().is_multiple_of(*buckets));
    }
    if algorithm == Algorithm::SlidingLog
        && matches!(spec.limit, Limit::Units(limit) if limit > 1_000_000)
    {
        spec.resolution = Some(Micros::from_micros(window.as_micros().div_ceil(1_000_000)));
    }
    spec
}
