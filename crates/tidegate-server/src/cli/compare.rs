//! `tidegate compare`: every algorithm with one limit over one trace. The trace is read by `lab.rs`, and the
//! decisions are made by the crate `tidegate-lab`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use tidegate::config;
use tidegate_lab::compare::Comparison;
use tidegate_lab::plot::{Bins, TARGET_BINS};
use tidegate_lab::trace::{Options, builtin};

use super::lab;
use super::trace_flags::TraceFlags;
use crate::failure::Failure;
use crate::stdout;

/// Compare all algorithms with one limit over one trace
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --trace the built-in one is compared: 200 requests in the last second of
a minute and 200 in the first of the next.

Examples:
  tidegate compare --rate 200/60s --plot edge.svg
  tidegate compare --rate 20/10s --key ip --trace access.log.gz --plot compare.svg"
)]
pub(crate) struct CompareArgs {
    /// The limit and the window, such as 200/60s, 100/s or 7/250ms
    #[arg(long, value_parser = config::parse_rate, required_unless_present = "explain_line")]
    rate: Option<(u64, Duration)>,
    #[command(flatten)]
    trace: TraceFlags,
    /// One limiter for each value of this entry of the descriptor, in any domain (may be
    /// repeated); by default one for all
    #[arg(long, value_name = "ENTRY")]
    key: Vec<String>,
    /// Output: a table, or one JSON object
    #[arg(long, value_enum, default_value_t = CompareFormat::Table)]
    format: CompareFormat,
    /// Also draw requests admitted and refused over time as SVG, one lane per algorithm
    #[arg(long, value_name = "OUT.svg")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CompareFormat {
    /// A line for each algorithm
    Table,
    /// One JSON object
    Json,
}

/// Decides the whole trace by every algorithm.
pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    if let Some(line) = args.trace.explain_line {
        return lab::explain(&args.trace, line);
    }
    let picture = lab::picture(args.plot.as_deref())?;
    let mut faults = Vec::new();
    let comparison = if args.trace.traces.is_empty() {
        let events = builtin::minute_edge();
        let first_us = events.first().map_or(0, |event| event.at_us);
        let last_us = events.last().map_or(0, |event| event.at_us);
        let mut comparison = begin(args, Bins::cover(first_us, last_us, TARGET_BINS))?;
        for event in &events {
            comparison.record(event);
        }
        comparison
    } else {
        let sorted = lab::read(&args.trace, Vec::new(), Options::new().only_entries(&args.key))?;
        faults = lab::faults(&args.trace, &sorted);
        let mut comparison = begin(args, lab::bins(&sorted))?;
        lab::each_batch(sorted, |batch| comparison.record_batch(batch).map_err(Failure::new))?;
        comparison
    };
    // A key that no request has would show that every algorithm admits all.
    if comparison.without_limit() {
        let there = match lab::names_of_first_line(&args.trace) {
            names if names.is_empty() => {
                "ip, method, path, status and user_agent of an access log".to_owned()
            }
            names => format!("those of its first line: {}", names.join(", ")),
        };
        return Err(Failure::usage(format!(
            "no request of the trace has the entry `{}`: expected names of its descriptors, such as {there}",
            args.key.join("`, `")
        )));
    }
    match args.format {
        CompareFormat::Table => stdout::print(&comparison.table(stdout::width()))?,
        CompareFormat::Json => lab::print_json(comparison.json())?,
    }
    if let Some(file) = &picture {
        lab::draw(&comparison.timeline(), file)?;
    }
    Ok(lab::ended(&faults))
}

fn begin(args: &CompareArgs, bins: Bins) -> Result<Comparison, Failure> {
    let (limit, window) = args.rate.unwrap_or_default();
    Comparison::new(limit, window, &args.key, bins).map_err(Failure::configuration)
}
