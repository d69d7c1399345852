//! `tidegate replay`: the decisions that a policy would have made over a recorded trace. `lab.rs` reads the trace,
//! `decider.rs` decides, and the crate `tidegate-lab` reports.

use std::io::{BufWriter, ErrorKind, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use tidegate::json::{DecisionLine, JsonObject};
use tidegate::{Answer, StoreUrl};
use tidegate_lab::replay;
use tidegate_lab::report::{self, Report};
use tidegate_lab::trace::Event;

use super::decider::ReplayDecider;
use super::operator::recorded::RecordedFlags;
use super::percentage::Percentage;
use super::trace_flags::TraceFlags;
use super::{guard::file, lab, serve};
use crate::failure::Failure;
use crate::{policy, stdout};

/// Replay a trace: whose requests would these rules have refused?
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:  tidegate replay -c rules.toml --trace access.log.gz --fail-above 1%",
    mut_arg("traces", |trace| trace.required_unless_present("servers")),
    after_long_help = "A trace is NDJSON, one {\"at_us\": 100000, \"descriptor\": {\"key\": \"a\"}, \"cost\": 1}
per line, or a log (descriptor: ip, method, path, status, user_agent), plain,
gzip or zstd. Recognised are common, combined and vhost_combined format, JSON as
of Caddy, Traefik, Envoy and nginx, HAProxy, Envoy, IIS, CloudFront and AWS load
balancers, also after the prefix of a container runtime, syslog or docker
compose.

`serve --record 10m` records requests, which --recorded replays: their decisions
are compared with the recorded ones.

Requests do not wait in a replay: those that `on_excess` would let wait are
refused. Decisions of rules in shadow mode are in the report, and not in the
lines of ndjson. If more than 1% of the lines of a trace cannot be read, or a
compressed file is damaged, the rest is reported and the exit code is 1.

Examples:
  tidegate replay --config rules.toml --trace access.log.gz
  tidegate replay --config rules.toml --trace web1.log --trace web2.log --trusted-proxy 10.0.0.0/8
  tidegate replay --trace access.log --explain-line 17
  tidegate replay --config rules.toml --trace access.log --plot refused.svg
  tidegate replay --config rules.toml --recorded http://127.0.0.1:8082
  zcat trace.ndjson.gz | tidegate replay --config rules.toml --trace - --format ndjson"
)]
pub(crate) struct ReplayArgs {
    /// The configuration (TOML)
    #[arg(
        short,
        long,
        value_name = "FILE",
        env = "TIDEGATE_CONFIG",
        value_parser = file(),
        required_unless_present = "explain_line"
    )]
    config: Option<PathBuf>,
    #[command(flatten)]
    trace: TraceFlags,
    #[command(flatten)]
    recorded: RecordedFlags,
    /// Output: a report, one decision per line, or one JSON object
    #[arg(long, value_enum, default_value_t = ReplayFormat::Table)]
    format: ReplayFormat,
    /// Decide in this store, with keys of this run's own
    ///
    /// redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://. Without it no store is
    /// used, even if the configuration names one; with it the rest of `[store]` applies (user,
    /// password, certificates)
    #[arg(long, value_name = "URL")]
    store: Option<StoreUrl>,
    /// Exit code 1 if more than this is refused, such as 1%
    ///
    /// The share of the requests that enforced rules refuse, compared exactly
    #[arg(long, value_name = "SHARE")]
    fail_above: Option<Percentage>,
    /// Also draw requests admitted and refused over time as SVG, one lane per rule
    #[arg(long, value_name = "OUT.svg")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReplayFormat {
    /// Requests, refusals, the keys refused most, and the fullest window next to the bound
    Table,
    /// One decision per line as JSON, in order of time
    Ndjson,
    /// The numbers of the report as one JSON object
    Json,
}

/// Decides the whole trace in order of time.
pub(crate) fn run(args: &ReplayArgs) -> Result<ExitCode, Failure> {
    if let Some(line) = args.trace.explain_line {
        return lab::explain(&args.trace, line);
    }
    let config = args.config.as_deref().unwrap_or(Path::new(""));
    let loaded = serve::load(config);
    let (policy, _) = loaded.map_err(|found| policy::failure(&found))?;
    // Before the trace is read, which may take long: a file that cannot be written ends the command now.
    let picture = lab::picture(args.plot.as_deref())?;
    let recorded = args.recorded.sources()?;
    let sorted = lab::read(&args.trace, recorded, replay::options(&policy))?;
    let bins = lab::bins(&sorted);
    // Collected now, because deciding consumes the trace.
    let faults = lab::faults(&args.trace, &sorted);
    let mut report = Report::new(&policy);
    let decider = ReplayDecider::new(policy, args.store.as_ref())?;
    if picture.is_some() {
        report = report.drawn(bins);
    }
    let mut lines = DecisionLines::new(args.format);
    let decided = lab::each(
        sorted,
        |event: &Event<'_>| decider.decide(event),
        |event, answer| {
            report.record(event, &answer);
            lines.print(&answer)
        },
    );
    // This also runs if the replay ended early; then that error is reported.
    let ended = decider.end();
    decided.and(ended)?;
    lines.end()?;
    match args.format {
        ReplayFormat::Table => stdout::print(&report::table(&report, stdout::width()))?,
        ReplayFormat::Json => lab::print_json(report::json(&report))?,
        ReplayFormat::Ndjson => {}
    }
    if let Some(file) = &picture {
        let traces: Vec<_> =
            args.trace.traces.iter().cloned().chain(args.recorded.names()).collect();
        let title = format!("{} over {}", named(config), all_named(&traces));
        lab::draw(&report.timeline(title, bins), file)?;
    }
    // Faults are reported even if the share of refusals decides the exit code.
    let ended = lab::ended(&faults);
    match &args.fail_above {
        Some(share) if share.is_exceeded(report.refused, report.requests) => {
            Err(Failure::new(format!(
                "{} of {} requests would be refused, which is more than --fail-above {share}",
                report.refused, report.requests
            )))
        }
        _ => Ok(ended),
    }
}

/// The last part of a path, for a headline.
fn named(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.display().to_string())
}

/// The first of the traces, and how many others there are.
fn all_named(traces: &[PathBuf]) -> String {
    let first = traces.first().map(|trace| named(trace)).unwrap_or_default();
    match traces.len() {
        0 | 1 => first,
        all => format!("{first} and {} more", all - 1),
    }
}

/// Standard output for decisions, if they are requested and still read.
struct DecisionLines {
    out: Option<BufWriter<StdoutLock<'static>>>,
    /// The line that is being written.
    line: Vec<u8>,
}

impl DecisionLines {
    fn new(format: ReplayFormat) -> Self {
        let out =
            (format == ReplayFormat::Ndjson).then(|| BufWriter::new(std::io::stdout().lock()));
        Self { out, line: Vec::new() }
    }

    fn print(&mut self, answer: &Answer<'_>) -> Result<(), Failure> {
        let Self { out: Some(out), line } = self else { return Ok(()) };
        line.clear();
        let written =
            DecisionLine::from(answer).write(line).map(JsonObject::end).map_err(Into::into);
        line.push(b'\n');
        let written = written.and_then(|()| out.write_all(line));
        self.still_read(written)
    }

    fn end(&mut self) -> Result<(), Failure> {
        let flushed = self.out.as_mut().map_or(Ok(()), Write::flush);
        self.still_read(flushed)
    }

    /// Ignores that a reader went away: it has read enough.
    fn still_read(&mut self, written: std::io::Result<()>) -> Result<(), Failure> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::nobody_reads()),
            Err(error) => Err(Failure::new(format!("cannot write to standard output: {error}"))),
            Ok(()) => Ok(()),
        }
    }
}
