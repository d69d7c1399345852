//! The command `in-process`: every case that is wanted, over every subject that can do it.

use crate::cases::{self, Case};
use crate::cores;
use crate::departures;
use crate::measure::{self, Timing};
use crate::pace::Pace;
use crate::report;
use crate::subjects::{self, Candidate};
use crate::workload;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

/// The options of this command.
#[derive(Args)]
pub struct InProcess {
    /// One JSON object per line instead of tables.
    #[arg(long)]
    json: bool,
    /// Only what has this text in `group/case/subject`.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Rounds over all the subjects of a case; the figures are the medians of them.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Let the processor overlap decisions: this measures the highest rate of a core, not the cost of one decision.
    #[arg(long)]
    overlap: bool,
}

/// Measures and prints.
///
/// # Errors
/// When a subject decides otherwise than its case expects, or nothing is wanted.
pub fn run(wanted: &InProcess) -> Result<(), String> {
    let mut measured = 0;
    for case in cases::ALL {
        let candidates = wanted.candidates(case);
        if candidates.is_empty() {
            continue;
        }
        if cores::count() < case.threads {
            eprintln!("left out `{}`: it needs {} cores", case.name, case.threads);
            continue;
        }
        wanted.measure(case, &candidates)?;
        measured += candidates.len();
    }
    let departures = |case: &str, subject: &str| wanted.wants(departures::GROUP, case, subject);
    measured += departures::run(departures, wanted.json)?;
    (measured > 0).then_some(()).ok_or_else(|| "nothing measured: no case matched".to_owned())
}

impl InProcess {
    fn candidates(&self, case: &Case) -> Vec<Candidate> {
        let mut candidates = subjects::offers(case);
        candidates.retain(|candidate| self.wants(case.group, case.name, candidate.name));
        candidates
    }

    fn wants(&self, group: &str, case: &str, subject: &str) -> bool {
        let path = format!("{group}/{case}/{subject}");
        self.filter.as_ref().is_none_or(|text| path.contains(text))
    }

    fn measure(&self, case: &Case, candidates: &[Candidate]) -> Result<(), String> {
        let timing = self.timing();
        let progress = progress(case, candidates.len() * (timing.rounds + 1));
        let asks = workload::sequence(case.keys, case.order);
        let step = |subject: &str| {
            progress.inc(1);
            progress.set_message(subject.to_owned());
        };
        let values = measure::case(case, candidates, &asks, timing, step)?;
        progress.finish_and_clear();
        self.print(case, &values).map_err(|problem| format!("cannot print: {problem}"))
    }

    fn timing(&self) -> Timing {
        let pace = if self.overlap { Pace::Overlapping } else { Pace::Apart };
        Timing { rounds: self.rounds as usize, pace }
    }

    fn print(&self, case: &Case, values: &[measure::Measured]) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        match self.json {
            true => report::json(&mut out, case, values),
            false => report::table(&mut out, case, values),
        }
    }
}

/// Drawn on standard error, and only when that is a terminal.
fn progress(case: &Case, steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64).with_prefix(case.name);
    let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
