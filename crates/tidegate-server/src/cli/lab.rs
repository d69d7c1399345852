//! The common parts of `replay` and `compare`: reading traces with a progress bar, reporting bad
//! lines, writing a picture.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};
use tidegate::printable;
use tidegate_lab::PictureFile;
use tidegate_lab::plot::{self, Bins, TARGET_BINS, Timeline};
use tidegate_lab::trace::{
    self, Batch, Event, Options, Progress, Sorted, Source, SourceSummary, TraceError,
};

use super::trace_flags::TraceFlags;
use crate::failure::Failure;
use crate::stdout;

/// Batches that are decided and wait to be recorded.
const BATCHES_BETWEEN: usize = 2;

/// Reads the traces, those in files first, and sorts them by time, with a bar on a terminal.
pub(super) fn read(
    flags: &TraceFlags,
    more: Vec<Source>,
    options: Options<'_>,
) -> Result<Sorted, Failure> {
    let sources = flags.sources()?.into_iter().chain(more);
    let bar = bar("{spinner} reading   [{bar:32}] {binary_bytes}/{binary_total_bytes}  {eta}");
    let options = flags.options(options)?.on_progress(|progress: Progress| {
        bar.set_length(progress.bytes_total.unwrap_or(progress.bytes_read));
        bar.set_position(progress.bytes_read);
    });
    let sorted = trace::read_all(sources, options).map_err(|error| match error {
        TraceError::Unrecognised { .. } => Failure::new(format!(
            "{error}. --log-format says how lines of another format are, and --explain-line 1 shows how a line is read"
        )),
        _ => Failure::new(error),
    });
    bar.finish_and_clear();
    let sorted = sorted?;
    for source in sorted.sources() {
        report(source, sorted.sources().len() > 1, flags);
    }
    Ok(sorted)
}

/// Prints how a line of each trace is read.
pub(super) fn explain(flags: &TraceFlags, line: u64) -> Result<ExitCode, Failure> {
    let options = flags.options(Options::new())?;
    for (path, source) in flags.traces.iter().zip(flags.sources()?) {
        let explained = trace::explain(source, line, &options).map_err(Failure::new)?;
        let Some(explained) = explained else {
            return Err(Failure::new(format!("{} has fewer than {line} lines", named(path))));
        };
        let mut text = format!("{}, line {line}\n", named(path));
        explained.to_string().lines().for_each(|row| text.push_str(&format!("  {row}\n")));
        if !explained.not_read.is_empty() {
            text.push_str(&format!("  not read: {}\n", explained.not_read.join(", ")));
        }
        stdout::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The names of entries of the first line of the first trace, if it is a file with a request there.
pub(super) fn names_of_first_line(flags: &TraceFlags) -> Vec<String> {
    let file = flags.traces.first().filter(|path| path.as_os_str() != "-");
    let source = file.and_then(|file| Source::open(file).ok());
    let options = flags.options(Options::new()).ok();
    let explained =
        source.zip(options).map(|(source, options)| trace::explain(source, 1, &options));
    let entries = explained.and_then(Result::ok).flatten().unwrap_or_default().entries;
    entries.into_iter().map(|(name, _)| name).collect()
}

/// Faults of traces, which make the exit code of a command 1 after its report: only the beginning of
/// a trace was read, or too few of its lines.
pub(super) fn faults(flags: &TraceFlags, sorted: &Sorted) -> Vec<Failure> {
    let mut faults = Vec::new();
    for source in sorted.sources() {
        let file = &source.name;
        let bad = source.bad_lines.count;
        if source.is_cut {
            faults.push(Failure::new(format!(
                "{file} is damaged: the report covers the lines up to where the damage was noticed; it may begin \
                 before that, so some of these may be wrong"
            )));
        }
        let all = bad + source.events;
        // More than one percent, compared without a division.
        if !flags.allow_unreadable && u128::from(bad) * 100 > u128::from(all) {
            let first = source.bad_lines.first.first().map_or(1, |line| line.line_number);
            faults.push(Failure::new(format!(
                "{bad} of {all} lines of {file} cannot be read, which is more than 1%: the report covers the \
                 others. --explain-line {first} shows how a line is read, --log-format says how lines of another \
                 format are, and --allow-unreadable accepts them"
            )));
        }
    }
    faults
}

/// Reports the faults of traces, and returns the exit code that they make.
pub(super) fn ended(faults: &[Failure]) -> ExitCode {
    // Every fault has the same exit code, so the last may stand for all.
    faults.iter().fold(ExitCode::SUCCESS, |_, fault| fault.report())
}

/// The name of a trace for people.
pub(super) fn named(trace: &Path) -> String {
    if trace.as_os_str() == "-" { "standard input".to_owned() } else { trace.display().to_string() }
}

/// Passes every event to `decide`, on a thread of its own, and the result to `record`, with a bar on a terminal.
pub(super) fn each<D: Send>(
    mut sorted: Sorted,
    decide: impl Fn(&Event<'_>) -> Result<D, Failure> + Send,
    mut record: impl FnMut(&Event<'_>, D) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let bar = deciding(&sorted);
    thread::scope(|scope| {
        let (send, decided) = sync_channel(BATCHES_BETWEEN);
        scope.spawn(move || {
            while let Some(next) = next_decided(&mut sorted, &decide).transpose() {
                // Nothing is decided after an error, which is sent with the decisions before it.
                let ends = next.as_ref().map_or(true, |next| next.ended.is_err());
                // If the receiver is gone, recording failed.
                if send.send(next).is_err() || ends {
                    break;
                }
            }
        });
        // An error returns and so drops the receiver, at which the other thread stops; the scope waits for it.
        for next in decided {
            let DecidedBatch { batch, decisions, ended } = next?;
            for (event, decision) in batch.events().zip(decisions) {
                // Decisions before an error are recorded, and the error is reported after them.
                record(&event.map_err(Failure::new)?, decision)?;
            }
            ended?;
            bar.inc(batch.len() as u64);
        }
        bar.finish_and_clear();
        Ok(())
    })
}

/// Passes every batch of events to `decide`, with a bar on a terminal.
pub(super) fn each_batch(
    mut sorted: Sorted,
    mut decide: impl FnMut(&Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let bar = deciding(&sorted);
    while let Some(batch) = sorted.next_batch().map_err(Failure::new)? {
        decide(&batch)?;
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

fn deciding(sorted: &Sorted) -> ProgressBar {
    let bar = bar("{spinner} deciding  [{bar:32}] {human_pos}/{human_len}  {eta}");
    bar.set_length(sorted.events());
    bar
}

/// A batch of events and the decisions on them, in the same order.
struct DecidedBatch<D> {
    batch: Batch,
    decisions: Vec<D>,
    /// The error that ended the replay, after the last of the decisions.
    ended: Result<(), Failure>,
}

/// The next batch with its decisions; `None` at the end of the trace.
fn next_decided<D>(
    sorted: &mut Sorted,
    decide: impl Fn(&Event<'_>) -> Result<D, Failure>,
) -> Result<Option<DecidedBatch<D>>, Failure> {
    let Some(batch) = sorted.next_batch().map_err(Failure::new)? else { return Ok(None) };
    let mut decisions = Vec::with_capacity(batch.len());
    let ended = batch.events().try_for_each(|event| {
        decisions.push(decide(&event.map_err(Failure::new)?)?);
        Ok(())
    });
    Ok(Some(DecidedBatch { batch, decisions, ended }))
}

/// The bins of a picture of the whole trace.
pub(super) fn bins(sorted: &Sorted) -> Bins {
    Bins::cover(sorted.first_at_us().unwrap_or(0), sorted.last_at_us().unwrap_or(0), TARGET_BINS)
}

/// The file of a picture, if one is requested; it is checked before the trace is read, which may
/// take long.
pub(super) fn picture(plot: Option<&Path>) -> Result<Option<PictureFile>, Failure> {
    plot.map(PictureFile::at)
        .transpose()
        .map_err(|error| if error.is_usage() { Failure::usage(error) } else { Failure::new(error) })
}

pub(super) fn draw(timeline: &Timeline, file: &PictureFile) -> Result<(), Failure> {
    let svg = plot::svg(timeline).map_err(Failure::new)?;
    file.write(&svg).map_err(Failure::new)
}

/// Prints one JSON object as a line.
pub(super) fn print_json(json: serde_json::Result<String>) -> Result<(), Failure> {
    let json = json.map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
    stdout::print(&format!("{}\n", printable::json(&json)))
}

/// Reports the lines of a trace that are left out, their count and the first of them, and the
/// requests that count as a proxy's.
fn report(source: &SourceSummary, is_one_of_several: bool, flags: &TraceFlags) {
    let bad = &source.bad_lines;
    let file = if is_one_of_several { format!(" of {}", source.name) } else { String::new() };
    let mut text = String::new();
    if bad.count > 0 {
        let were = if bad.count == 1 { "was" } else { "were" };
        let lines = if bad.count == 1 { "line" } else { "lines" };
        text.push_str(&format!(
            "tidegate: {} {lines}{file} {were} left out, not being readable:\n",
            bad.count
        ));
        bad.first.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        let more = bad.count.saturating_sub(bad.first.len() as u64);
        if more > 0 {
            text.push_str(&format!("  and {more} more\n"));
        }
    }
    if source.of_proxies > 0 {
        text.push_str(&format!(
            "tidegate: {} of {} requests{file} count as a trusted proxy's own, because their lines name no other \
             caller in {}\n",
            source.of_proxies,
            source.events,
            flags.forwarded_field.name()
        ));
    }
    let _ = std::io::stderr().write_all(printable::text(&text).as_bytes());
}

fn bar(template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}
