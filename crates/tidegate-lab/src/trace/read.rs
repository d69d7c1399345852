//! Reads a source and returns its events in order of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bad_lines::Reason;
use super::error::TraceError;
use super::format::LineParser;
use super::gzip::Damage;
use super::lines::{LINE_BYTES_MAX, Line, Lines};
use super::options::{Options, Progress};
use super::sort::{FAN_IN, Sorter};
use super::sorted::{Sorted, Summary};
use super::source::Source;

/// Lines between two reports of progress.
const LINES_PER_PROGRESS: u64 = 8_192;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a whole trace and puts it in order of time; see the [module](super) for the formats.
///
/// # Errors
/// * [`TraceError::Read`] if reading fails; damaged compressed data is a bad line instead.
/// * [`TraceError::Compressed`] if its compression is not gzip.
/// * [`TraceError::Unrecognised`] if it has lines but none of them can be read.
/// * [`TraceError::Spill`] if it does not fit in memory and temporary files fail.
pub fn read(source: Source, options: Options<'_>) -> Result<Sorted, TraceError> {
    let name = source.name.clone();
    let mut reading = Reading::new(source.bytes_total, options);
    reading.all_lines(source)?;
    reading.finish(name)
}

struct Reading<'a> {
    options: Options<'a>,
    bytes_total: Option<u64>,
    bytes_read: Arc<AtomicU64>,
    parser: LineParser,
    sorter: Sorter,
    summary: Summary,
}

impl<'a> Reading<'a> {
    fn new(bytes_total: Option<u64>, options: Options<'a>) -> Self {
        let sorter = Sorter::new(options.memory_budget_bytes, FAN_IN, options.temp_dir.clone());
        Self {
            options,
            bytes_total,
            bytes_read: Arc::default(),
            parser: LineParser::default(),
            sorter,
            summary: Summary::default(),
        }
    }

    fn all_lines(&mut self, source: Source) -> Result<(), TraceError> {
        let name = source.name.clone();
        let text = source.into_text()?;
        self.bytes_read = text.bytes_read;
        let mut lines = Lines::new(text.text);
        let mut number = 0;
        loop {
            match lines.next() {
                Ok(None) => break,
                Ok(Some(line)) => {
                    number += 1;
                    self.line(number, line)?;
                }
                Err(source) => match Damage::of(&source) {
                    Some(damage) => {
                        self.cut(number, damage, lines.cut_off());
                        break;
                    }
                    None => return Err(TraceError::Read { name, lines_read: number, source }),
                },
            }
            if number % LINES_PER_PROGRESS == 0 {
                self.tell_progress();
            }
        }
        self.tell_progress();
        Ok(())
    }

    /// Ends the trace at damage to the compressed data. The damaged line is bad even if it parses,
    /// because it may be only a part of the written line.
    fn cut(&mut self, lines_read: u64, damage: Damage, left: &[u8]) {
        let before = if lines_read == 1 { "line before it was" } else { "lines before it were" };
        let reason = format!("{damage}; {lines_read} {before} read");
        self.summary.bad_lines.add(lines_read + 1, reason.into(), left);
        self.summary.is_cut = true;
    }

    fn line(&mut self, number: u64, line: Line<'_>) -> Result<(), TraceError> {
        let text = match line {
            Line::Whole(text) => text,
            Line::TooLong(start) => {
                self.summary.bad_lines.add(number, too_long(), start);
                return Ok(());
            }
        };
        let text = if number == 1 { without_mark(text) } else { text };
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        match self.parser.parse(text) {
            Ok(event) => {
                self.summary.add(event.at_us);
                self.sorter.push(&event).map_err(|source| self.spill_error(source))
            }
            Err(reason) => {
                self.summary.bad_lines.add(number, reason, text);
                Ok(())
            }
        }
    }

    fn finish(self, name: String) -> Result<Sorted, TraceError> {
        let Summary { events, bad_lines, .. } = &self.summary;
        if *events == 0 && bad_lines.count > 0 {
            return Err(TraceError::Unrecognised { name, bad_lines: self.summary.bad_lines });
        }
        let dir = self.options.temp_dir;
        match self.sorter.finish() {
            Ok(in_order) => Ok(Sorted { in_order, summary: self.summary, dir, failed: false }),
            Err(source) => Err(TraceError::Spill { dir, source }),
        }
    }

    fn spill_error(&self, source: std::io::Error) -> TraceError {
        TraceError::Spill { dir: self.options.temp_dir.clone(), source }
    }

    fn tell_progress(&mut self) {
        (self.options.on_progress)(Progress {
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes_total: self.bytes_total,
            events: self.summary.events,
        });
    }
}

fn too_long() -> Reason {
    format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20).into()
}

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
}
