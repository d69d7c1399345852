//! The common parts of `replay` and `compare`: reading a trace with a progress bar, reporting bad
//! lines, writing a picture.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};
use tidegate_lab::PictureFile;
use tidegate_lab::plot::{self, Bins, TARGET_BINS, Timeline};
use tidegate_lab::trace::{self, BadLines, Batch, Event, Options, Progress, Sorted, Source};

use crate::failure::Failure;
use crate::{printable, stdout};

/// Batches that are decided and wait to be recorded.
const BATCHES_BETWEEN: usize = 2;

/// Reads a trace and sorts it by time, with a bar on a terminal.
pub(super) fn read(trace: &Path, options: Options<'_>) -> Result<Sorted, Failure> {
    let source = Source::open(trace).map_err(Failure::new)?;
    let bar = bar("{spinner} reading   [{bar:32}] {binary_bytes}/{binary_total_bytes}  {eta}");
    let show = |progress: Progress| {
        bar.set_length(progress.bytes_total.unwrap_or(progress.bytes_read));
        bar.set_position(progress.bytes_read);
    };
    let sorted = trace::read(source, options.on_progress(show)).map_err(Failure::new);
    bar.finish_and_clear();
    let sorted = sorted?;
    report(sorted.bad_lines());
    Ok(sorted)
}

/// The exit code of a command that has reported on a trace: 1 if the trace was only a beginning,
/// with a message on standard error.
pub(super) fn ended(trace: &Path, is_cut: bool) -> ExitCode {
    if !is_cut {
        return ExitCode::SUCCESS;
    }
    let file = match trace.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => trace.display().to_string(),
    };
    let lines = "what is reported is of the lines up to where the damage was noticed";
    Failure::new(format!(
        "{file} is damaged: {lines}; it may begin before that, so some of these may be wrong"
    ))
    .report()
}

/// Passes every event to `decide`, on a thread of its own, and what it returns to `record`, with a
/// bar on a terminal.
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
                let ends = next.as_ref().map_or(true, |next| next.ended.is_err());
                // If nobody receives, recording failed.
                if send.send(next).is_err() || ends {
                    break;
                }
            }
        });
        for next in decided {
            let Decided { batch, decisions, ended } = next?;
            for (event, decision) in batch.events().zip(decisions) {
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
struct Decided<D> {
    batch: Batch,
    decisions: Vec<D>,
    /// The error that ended the replay, after the last of the decisions.
    ended: Result<(), Failure>,
}

fn next_decided<D>(
    sorted: &mut Sorted,
    decide: impl Fn(&Event<'_>) -> Result<D, Failure>,
) -> Result<Option<Decided<D>>, Failure> {
    let Some(batch) = sorted.next_batch().map_err(Failure::new)? else { return Ok(None) };
    let mut decisions = Vec::with_capacity(batch.len());
    let ended = batch.events().try_for_each(|event| {
        decisions.push(decide(&event.map_err(Failure::new)?)?);
        Ok(())
    });
    Ok(Some(Decided { batch, decisions, ended }))
}

/// The bins of a picture of the whole trace.
pub(super) fn bins(sorted: &Sorted) -> Bins {
    Bins::cover(sorted.first_at_us().unwrap_or(0), sorted.last_at_us().unwrap_or(0), TARGET_BINS)
}

/// The file of a picture, if one is requested; it is checked before the trace is read, which may
/// take long.
pub(super) fn picture(plot: Option<&Path>) -> Result<Option<PictureFile>, Failure> {
    plot.map(PictureFile::at).transpose().map_err(|error| match error.is_usage() {
        true => Failure::configuration(format!("tidegate: {error}")),
        false => Failure::new(error),
    })
}

pub(super) fn draw(timeline: &Timeline, file: &PictureFile) -> Result<(), Failure> {
    let svg = plot::svg(timeline).map_err(Failure::new)?;
    file.write(&svg).map_err(Failure::new)
}

/// Prints one JSON object as a line.
pub(super) fn print_json(json: serde_json::Result<String>) -> Result<(), Failure> {
    let json = json.map_err(|error| Failure::new(format!("can not write JSON: {error}")))?;
    stdout::print(&format!("{json}\n"))
}

/// Reports bad lines, which are not a failure: their count and the first of them.
fn report(bad: &BadLines) {
    if bad.count == 0 {
        return;
    }
    let lines = if bad.count == 1 { "line was" } else { "lines were" };
    let mut text = format!("tidegate: {} {lines} left out, not being readable:\n", bad.count);
    bad.first.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    let more = bad.count.saturating_sub(bad.first.len() as u64);
    if more > 0 {
        text.push_str(&format!("  and {more} more\n"));
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
