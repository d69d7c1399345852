//! A comparison: every algorithm with one limit over one trace. Algorithms that hold permits are not compared, because a
//! trace does not say when a permit is returned.
//!
//! Memory is bounded however many keys there are: each algorithm keeps at most as many limiters as
//! any rule does ([`RuleSpec::max_keys`], a million), and all of them together watch windows in
//! [`WORST_BYTES`](crate::report::WORST_BYTES). The table reports it if that was not enough.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tidegate::{AlgorithmKind, Micros, Policy, PolicyErrors, RuleSpec, Spec};

use crate::plot::{Bins, Timeline, length_label};
use crate::replay::Replay;
use crate::report::{
    Fullest, Report, RuleReport, align_right, fitted, grouped, keep_together, new_table, overflow,
    percent,
};
use crate::trace::{Batch, DEFAULT_DOMAIN, Event, TraceError};

/// The algorithms side by side, each with limiters of its own.
#[derive(Debug)]
pub struct Comparison {
    limit: u64,
    window: Duration,
    bins: Bins,
    runs: Vec<AlgorithmRun>,
}

/// The results of one algorithm.
#[derive(Debug)]
struct AlgorithmRun {
    replay: Replay,
    report: Report,
}

#[derive(Serialize)]
struct ComparisonJson<'a> {
    limit: u64,
    window_us: u64,
    requests: u64,
    unlimited: u64,
    algorithms: Vec<OfAlgorithm<'a>>,
}

#[derive(Serialize)]
struct OfAlgorithm<'a> {
    name: &'a str,
    admitted: u64,
    refused: u64,
    longest_delay_us: u64,
    #[serde(flatten)]
    fullest: Fullest,
}

impl AlgorithmRun {
    fn record(&mut self, event: &Event<'_>) {
        let answer = self.replay.decide(event);
        self.report.record(event, &answer);
    }
}

/// The request in the domain of the compared limits: they hold for requests of every domain.
fn in_one_domain(event: Event<'_>) -> Event<'_> {
    Event { domain: DEFAULT_DOMAIN, ..event }
}

fn record_all(runs: &mut [AlgorithmRun], batch: &Batch) -> Result<(), TraceError> {
    for event in batch.events() {
        let event = in_one_domain(event?);
        runs.iter_mut().for_each(|run| run.record(&event));
    }
    Ok(())
}

impl Comparison {
    /// Creates limiters of every compared algorithm with `limit` units per `window`: one for each
    /// combination of the values of the `key` entries, or one for all if there are none. A picture
    /// counts in `bins`.
    ///
    /// # Errors
    /// Returns an error if the limit or the window is invalid.
    pub fn new(
        limit: u64,
        window: Duration,
        key: &[String],
        bins: Bins,
    ) -> Result<Self, PolicyErrors> {
        let compared = AlgorithmKind::ALL.iter().filter(|algorithm| !algorithm.holds_permits());
        let count = compared.clone().count();
        let mut runs = Vec::with_capacity(count);
        for algorithm in compared {
            let rule = RuleSpec::new(algorithm.name(), Spec::fitting(*algorithm, limit, window));
            let policy = Policy::new(vec![rule.key(key.iter().cloned())])?;
            let report = Report::one_of(count, &policy).drawn(bins);
            runs.push(AlgorithmRun { replay: Replay::new(policy), report });
        }
        Ok(Self { limit, window, bins, runs })
    }

    /// Decides one request by every algorithm.
    pub fn record(&mut self, event: &Event<'_>) {
        let event = in_one_domain(event.clone());
        self.runs.iter_mut().for_each(|run| run.record(&event));
    }

    /// Decides requests by every algorithm, on as many threads as there are cores.
    ///
    /// # Errors
    /// An event cannot be read.
    pub fn record_batch(&mut self, batch: &Batch) -> Result<(), TraceError> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        // Without runs a part would be empty, at which `chunks_mut` panics.
        let runs_each = self.runs.len().div_ceil(threads).max(1);
        thread::scope(|scope| {
            let mut parts = self.runs.chunks_mut(runs_each);
            // The calling thread decides a part as well, so that it does not only wait.
            let own = parts.next().unwrap_or_default();
            // Collected, so that every other thread has begun before this thread takes its own part.
            let others: Vec<_> =
                parts.map(|part| scope.spawn(|| record_all(part, batch))).collect();
            let mut recorded = record_all(own, batch);
            for other in others {
                let result = other.join().unwrap_or_else(|panic| resume_unwind(panic));
                // All threads read the same batch, so an error is the same in each.
                recorded = recorded.and(result);
            }
            recorded
        })
    }

    /// A line for each algorithm: its admissions and refusals, and its fullest window next to its bound. With a
    /// `width`, in columns of a terminal, no line is wider.
    #[must_use]
    pub fn table(&self, width: Option<u16>) -> String {
        let header =
            ["algorithm", "admitted", "refused", "", "fullest window", "bound", "longest delay"];
        let mut table = new_table(&header, width);
        (1..=6).for_each(|column| align_right(&mut table, column));
        [0, 1, 2, 3, 5].into_iter().for_each(|column| keep_together(&mut table, column));
        for (report, rule) in self.rules() {
            table.add_row([
                rule.rule().name().to_owned(),
                grouped(report.requests - report.refused),
                grouped(report.refused),
                percent(report.refused, report.requests),
                rule.own().fullest(),
                rule.own().bound().map_or("none".to_owned(), grouped),
                length_label(Micros::from(rule.longest_delay).as_micros()),
            ]);
        }
        let mut text =
            format!("{}, {}.\n{table}\n{}", self.headline(), self.rate(), self.unmatched());
        self.rules().for_each(|(_, rule)| overflow(&mut text, rule));
        fitted(&text, width)
    }

    /// Returns the numbers of the report as one JSON object, for programs.
    ///
    /// # Errors
    /// No error is known.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let algorithms = self.rules().map(|(report, rule)| OfAlgorithm {
            name: rule.rule().name(),
            admitted: report.requests - report.refused,
            refused: report.refused,
            longest_delay_us: Micros::from(rule.longest_delay).as_micros(),
            fullest: Fullest::of(rule.own()),
        });
        // Every algorithm decides the same requests, so any report has these totals.
        let first = self.runs.first().map(|run| &run.report);
        serde_json::to_string(&ComparisonJson {
            limit: self.limit,
            window_us: Micros::from(self.window).as_micros(),
            requests: first.map_or(0, |report| report.requests),
            unlimited: first.map_or(0, |report| report.unlimited),
            algorithms: algorithms.collect(),
        })
    }

    /// The picture: one lane for each algorithm.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        Timeline {
            title: format!("{}, by algorithm", self.rate()),
            subtitle: self.headline(),
            start_us: self.bins.start_us,
            bin_us: self.bins.bin_us,
            own_scales: false,
            lanes: self
                .rules()
                // Without lanes the page of an empty trace says that there were no requests.
                .filter(|(report, _)| report.requests > 0)
                .filter_map(|(_, rule)| rule.lane())
                .collect(),
        }
    }

    fn rules(&self) -> impl Iterator<Item = (&Report, &RuleReport)> {
        self.runs.iter().filter_map(|run| Some((&run.report, run.report.rules.first()?)))
    }

    fn headline(&self) -> String {
        self.runs.first().map_or(String::new(), |run| run.report.headline())
    }

    /// The sentence about requests that matched no limit because they lack an entry of the key.
    fn unmatched(&self) -> String {
        match self.runs.first().map(|run| &run.report) {
            Some(report) if report.unlimited > 0 => format!(
                "{} of {} requests met no limit: they lack an entry of the key.\n",
                grouped(report.unlimited),
                grouped(report.requests),
            ),
            _ => String::new(),
        }
    }

    /// Returns whether there were requests and none of them matched a limit.
    #[must_use]
    pub fn without_limit(&self) -> bool {
        let mut reports = self.runs.iter().map(|run| &run.report);
        reports.all(|report| report.requests > 0 && report.unlimited == report.requests)
    }

    fn rate(&self) -> String {
        format!("{} per {}", grouped(self.limit), Micros::from(self.window))
    }
}
