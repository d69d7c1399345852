//! Reads sources and returns their events in order of time.
//!
//! One thread reads; the others parse and sort pieces, each in its turn, so that the results are
//! taken in the order of the input.

use std::io::{self, BufRead};
use std::mem;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::buffer::Buffer;
use super::clients::ClientFinder;
use super::damage::Damage;
use super::error::TraceError;
use super::explained::Explained;
use super::line_parser::LineParser;
use super::lines::{Pieces, TraceLine, lines};
use super::options::{Options, Progress};
use super::piece::{PieceParser, PieceThread};
use super::sort::{FAN_IN, Sorter};
use super::sorted::{Sorted, SourceSummary, Summary};
use super::source::{Source, SourceText};

/// The bytes of a piece of text.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that a parser has at a time: one in work, and one that waits.
const PIECES_PER_PARSER: usize = 2;
/// The maximum number of parsers. One thread reads faster than eight can parse.
const PARSERS_MAX: usize = 8;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a whole trace and puts it in order of time; see the [module](super) for the formats.
///
/// # Errors
/// * [`TraceError::Read`] if reading fails; damaged compressed data is a bad line instead.
/// * [`TraceError::Compressed`] if it is compressed, and neither by gzip nor by zstd.
/// * [`TraceError::Utf16`] if it is a text in UTF-16.
/// * [`TraceError::Unrecognised`] if it has lines but none of them can be read.
/// * [`TraceError::Spill`] if it does not fit in memory and temporary files fail.
pub fn read(source: Source, options: Options<'_>) -> Result<Sorted, TraceError> {
    read_all([source], options)
}

/// Reads several sources as one trace, as [`read`] reads one. Each source has a format of its own; events
/// of one time keep the order of the sources.
///
/// # Errors
/// Returns the first error of a source, as [`read`] does.
pub fn read_all(
    sources: impl IntoIterator<Item = Source>,
    options: Options<'_>,
) -> Result<Sorted, TraceError> {
    let sources: Vec<_> = sources.into_iter().collect();
    // `None` if the size of any source is unknown, because then the end is unknown too.
    let bytes_total = sources.iter().map(|source| source.bytes_total).sum();
    let sorter = Sorter::new(options.memory_budget_bytes, FAN_IN, options.temp_dir.clone());
    let mut trace = Trace { bytes_total, bytes_before: 0, options, sorter, done: Vec::new() };
    let mut summary = Summary::default();
    for source in sources {
        summary.append(trace.source(source)?);
    }
    trace.finish(summary)
}

/// Says how the line of this number, from 1, is read; `None` if the source has fewer lines.
///
/// # Errors
/// * [`TraceError::Read`] if reading fails before that line.
/// * [`TraceError::Compressed`] if it is compressed, and neither by gzip nor by zstd.
pub fn explain(
    source: Source,
    line_number: u64,
    options: &Options<'_>,
) -> Result<Option<Explained>, TraceError> {
    let name = source.name.clone();
    let SourceText { text, .. } = source.into_text()?;
    let mut pieces = Pieces::new(text, PIECE_BYTES);
    let mut parser = line_parser(options);
    let mut piece = Vec::new();
    let mut inner = String::new();
    let mut number = 0;
    loop {
        pieces.next(&mut piece).map_err(|source| TraceError::Read {
            name: name.clone(),
            lines_read: number,
            source,
        })?;
        if number == 0 {
            without_mark(&mut piece);
        }
        if piece.is_empty() {
            return Ok(None);
        }
        for line in lines(&piece) {
            number += 1;
            let (TraceLine::Whole(text) | TraceLine::TooLong(text)) = line;
            if number == line_number {
                return Ok(Some(parser.explain(text)));
            }
            // Lines before it decide the format.
            let _ = parser.parse(text, &mut inner, |_| ());
        }
    }
}

fn line_parser(options: &Options<'_>) -> LineParser {
    LineParser::new(ClientFinder(options.client.clone()), options.log_format.clone())
}

fn without_mark(piece: &mut Vec<u8>) {
    if piece.starts_with(BYTE_ORDER_MARK) {
        piece.drain(..BYTE_ORDER_MARK.len());
    }
}

/// The events of the sources that were read, and how far they go.
struct Trace<'a> {
    bytes_total: Option<u64>,
    bytes_before: u64,
    options: Options<'a>,
    sorter: Sorter,
    done: Vec<SourceSummary>,
}

impl Trace<'_> {
    fn source(&mut self, source: Source) -> Result<Summary, TraceError> {
        let name = source.name.clone();
        let SourceText { text, bytes_read } = source.into_text()?;
        // A piece is never larger than the budget, which it would pass by itself.
        let piece_bytes = self.options.memory_budget_bytes.clamp(1, PIECE_BYTES);
        let pieces = Pieces::new(text, piece_bytes);
        let summary = Summary::default();
        let mut reading = SourceReading { bytes_read, trace: self, pieces, ended: None, summary };
        reading.all()?;
        let bytes_read = reading.bytes_read.load(Ordering::Relaxed);
        let summary = reading.finish(&name)?;
        self.bytes_before += bytes_read;
        let Summary { events, is_cut, of_proxies, .. } = summary;
        let bad_lines = summary.bad_lines.clone();
        self.done.push(SourceSummary { name, events, bad_lines, is_cut, of_proxies });
        Ok(summary)
    }

    fn finish(self, summary: Summary) -> Result<Sorted, TraceError> {
        let Options { temp_dir: dir, names, .. } = self.options;
        let names = Arc::new(names);
        match self.sorter.finish() {
            Ok(in_order) => {
                Ok(Sorted { in_order, names, summary, sources: self.done, dir, failed: false })
            }
            Err(source) => Err(TraceError::Spill { dir, source }),
        }
    }
}

/// One source during reading.
struct SourceReading<'t, 'o, R> {
    trace: &'t mut Trace<'o>,
    bytes_read: Arc<AtomicU64>,
    pieces: Pieces<R>,
    /// Why reading ended early.
    ended: Option<io::Error>,
    summary: Summary,
}

impl<R: BufRead> SourceReading<'_, '_, R> {
    fn all(&mut self) -> Result<(), TraceError> {
        let options = &self.trace.options;
        let mut parser = PieceParser::new(line_parser(options), options.names.clone());
        let mut piece = Vec::new();
        let mut is_more = self.next(&mut piece);
        without_mark(&mut piece);
        // One parser reads until the format is known: copies would each learn a format of their own.
        while is_more && !parser.knows_format() {
            let (events, summary) = parser.parse(&piece);
            self.add(events, summary)?;
            is_more = self.next(&mut piece);
        }
        if is_more {
            self.rest(&parser, piece)?;
        }
        self.report_progress();
        Ok(())
    }

    /// Parses this piece and all that follow, on several threads.
    fn rest(&mut self, parser: &PieceParser, mut piece: Vec<u8>) -> Result<(), TraceError> {
        let mut parser = parser.clone();
        let parsers = thread::available_parallelism().map_or(1, NonZero::get).min(PARSERS_MAX);
        thread::scope(|scope| {
            // Pieces go to the threads in turn, and results are taken in the same turn: so they keep the order of the
            // input.
            let threads: Vec<_> =
                (0..parsers).map(|_| PieceThread::start(scope, parser.clone())).collect();
            let mut columns = parser.columns_after(b"");
            let mut sent = 0;
            let mut taken = 0;
            loop {
                // A piece begins with the columns that the pieces before it named last.
                let before = columns.clone();
                if let Some(after) = before.as_ref().and_then(|_| parser.columns_after(&piece)) {
                    parser.set_columns(Arc::clone(&after));
                    columns = Some(after);
                }
                threads[sent % parsers].send(mem::take(&mut piece), before);
                sent += 1;
                // The oldest result is taken before more is read, so that the memory of pieces under way has a
                // bound.
                if sent - taken == PIECES_PER_PARSER * parsers {
                    // A thread that returns nothing panicked, and the end of the scope says so.
                    let Some((events, summary, text)) = threads[taken % parsers].next() else {
                        break;
                    };
                    self.add(events, summary)?;
                    taken += 1;
                    // The next piece uses the memory of this piece again.
                    piece = text;
                }
                if !self.next(&mut piece) {
                    break;
                }
            }
            while taken < sent
                && let Some((events, summary, _)) = threads[taken % parsers].next()
            {
                self.add(events, summary)?;
                taken += 1;
            }
            Ok(())
        })
    }

    /// Reads the next piece; `false` if there is none.
    fn next(&mut self, piece: &mut Vec<u8>) -> bool {
        // Also an error ends the loop; `finish` says if it is damage or a failure of the source.
        self.ended = self.pieces.next(piece).err();
        self.ended.is_none() && !piece.is_empty()
    }

    /// Adds the result of the next piece.
    fn add(&mut self, events: Buffer, summary: Summary) -> Result<(), TraceError> {
        self.summary.append(summary);
        self.report_progress();
        self.trace.sorter.push(events).map_err(|source| {
            let dir = self.trace.options.temp_dir.clone();
            TraceError::Spill { dir, source }
        })
    }

    /// The summary of the source.
    fn finish(mut self, name: &str) -> Result<Summary, TraceError> {
        let lines_read = self.summary.lines;
        if let Some(source) = self.ended {
            let Some(damage) = Damage::of(&source) else {
                // A trace that is read only in part is another trace, so its lines are not used.
                return Err(TraceError::Read { name: name.to_owned(), lines_read, source });
            };
            cut(&mut self.summary, damage, self.pieces.cut_off());
        }
        if self.summary.events == 0 && self.summary.bad_lines.count > 0 {
            let bad_lines = self.summary.bad_lines;
            return Err(TraceError::Unrecognised { name: name.to_owned(), bad_lines });
        }
        Ok(self.summary)
    }

    fn report_progress(&mut self) {
        let before: u64 = self.trace.done.iter().map(|source| source.events).sum();
        (self.trace.options.on_progress)(Progress {
            bytes_read: self.trace.bytes_before + self.bytes_read.load(Ordering::Relaxed),
            bytes_total: self.trace.bytes_total,
            events: before + self.summary.events,
        });
    }
}

/// Ends the trace at damage to the compressed data. The damaged line is bad even if it parses,
/// because it may be only a part of the written line.
fn cut(summary: &mut Summary, damage: Damage, left: &[u8]) {
    let lines = summary.lines;
    let before = if lines == 1 { "line before it was" } else { "lines before it were" };
    let reason = format!("{damage}; {lines} {before} read");
    summary.bad_lines.add(lines + 1, reason.into(), left);
    summary.is_cut = true;
}
