//! The command `layer`: the cost of a tower layer for a request, compared with tower_governor and with no layer.
//!
//! First each layer is called in this process, over a service that does nothing; then a program in axum has it,
//! and wrk asks.

mod hello;
mod services;

use crate::calls;
use crate::cases::{self, Case};
use crate::measure::{self, Timing, median};
use crate::pace::Pace;
use crate::report;
use crate::rounds::Form;
use crate::subjects::Candidate;
use crate::workload;
use clap::Args;
pub use hello::{LayerHello, run as hello};
use serde::Serialize;
use services::Service;
pub use services::offers;
use std::io::{self, Write};
use std::time::Duration;

const HEADINGS: [&str; 6] = [
    "subject",
    "cpu ns",
    "cpu ns, least to most",
    "instructions",
    "allocations",
    "over bare, of the base",
];

/// The options of this command.
#[derive(Args)]
pub struct Layer {
    #[command(flatten)]
    form: Form,
    /// Only what has this text in `case/subject`; cases are `admitted`, `refused` and `axum`.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Rounds over all the subjects of a case; the figures are the medians of them.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The time for which wrk asks each program in each round.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

/// One line of `--json`. Names and units of the fields are what scripts rely on.
#[derive(Serialize)]
struct Line {
    group: &'static str,
    case: &'static str,
    subject: &'static str,
    ns_cpu: f64,
    ns_wall: f64,
    instructions: Option<f64>,
    allocations: f64,
}

/// The measurements of one service.
struct Measured {
    line: Line,
    /// CPU nanoseconds of each round, sorted.
    cpu_ns: Vec<f64>,
}

/// Measures and prints.
///
/// # Errors
/// When a layer decides otherwise than its case expects, wrk is missing, or nothing is wanted.
pub fn run(wanted: &Layer) -> Result<(), String> {
    let mut measured = 0;
    for case in cases::LAYER {
        let mut candidates = offers(case);
        candidates.retain(|candidate| wanted.wants(case.name, candidate.name));
        if !candidates.is_empty() {
            measured += candidates.len();
            let values = wanted.measure(case, &candidates)?;
            print(case, &values, wanted.form)
                .map_err(|problem| format!("cannot print: {problem}"))?;
        }
    }
    let mut services = Service::ALL.to_vec();
    services.retain(|service| wanted.wants(hello::CASE, service.name()));
    if !services.is_empty() {
        measured += services.len();
        let length = Duration::from_secs(wanted.seconds);
        hello::measure(&services, wanted.rounds as usize, length)?.print(wanted.form)?;
    }
    (measured > 0).then_some(()).ok_or_else(|| "nothing measured: no case matched".to_owned())
}

impl Layer {
    fn wants(&self, case: &str, subject: &str) -> bool {
        let path = format!("{case}/{subject}");
        self.filter.as_ref().is_none_or(|text| path.contains(text))
    }

    fn measure(&self, case: &Case, candidates: &[Candidate]) -> Result<Vec<Measured>, String> {
        let asks = workload::sequence(case.keys, case.order);
        let timing = Timing { rounds: self.rounds as usize, pace: Pace::Apart };
        let timed = measure::case(case, candidates, &asks, timing, |_| ())?;
        let both = candidates.iter().zip(timed);
        both.map(|(candidate, timed)| {
            let line = Line {
                group: case.group,
                case: case.name,
                subject: candidate.name,
                ns_cpu: rounded(median(&timed.cpu_ns)),
                ns_wall: rounded(median(&timed.wall_ns)),
                instructions: calls::instructions(candidate, case)?.map(rounded),
                allocations: rounded(calls::allocations(candidate, case)),
            };
            Ok(Measured { line, cpu_ns: timed.cpu_ns })
        })
        .collect()
    }
}

fn print(case: &Case, values: &[Measured], form: Form) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let lines = || values.iter().map(|one| &one.line);
    if form.is_json() {
        return lines().try_for_each(|line| writeln!(out, "{}", serde_json::to_string(line)?));
    }
    let bare = lines().find(|line| line.subject == Service::Bare.name());
    let base = lines().find(|line| line.subject == case.base);
    let over = |line: &Line| Some(line.instructions? - bare?.instructions?);
    let rows = values.iter().map(|one| row(one, base.and_then(over), over(&one.line)));
    let title = format!("{}: {} (base: instructions of {})", case.group, case.name, case.base);
    if !form.is_markdown() {
        let headings = HEADINGS.map(str::to_owned).to_vec();
        return writeln!(out, "\n{title}\n{}", report::ruled(headings, rows));
    }
    writeln!(out, "\n**{title}**\n\n| {} |", HEADINGS.join(" | "))?;
    writeln!(out, "|---{}|", "|---:".repeat(HEADINGS.len() - 1))?;
    rows.into_iter().try_for_each(|row| writeln!(out, "| {} |", row.join(" | ")))
}

fn row(one: &Measured, base: Option<f64>, over: Option<f64>) -> Vec<String> {
    let spread = match one.cpu_ns.as_slice() {
        [least, .., most] => format!("{least:.0} - {most:.0}"),
        _ => String::new(),
    };
    let ratio = over.zip(base).map(|(over, base)| format!("{:.2}", over / base));
    vec![
        one.line.subject.to_owned(),
        format!("{:.0}", one.line.ns_cpu),
        spread,
        one.line.instructions.map(|count| format!("{count:.0}")).unwrap_or_default(),
        format!("{:.1}", one.line.allocations),
        ratio.unwrap_or_default(),
    ]
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
