//! Reads a source and returns its events in order of time.
//!
//! One thread reads; the others parse and sort pieces, each in its turn, so that the results are
//! taken in the order of the input.

use std::io::{self, BufRead};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::buffer::Buffer;
use super::error::TraceError;
use super::gzip::Damage;
use super::lines::Pieces;
use super::options::{Options, Progress};
use super::piece::{PieceParser, PieceThread};
use super::sort::{FAN_IN, Sorter};
use super::sorted::{Sorted, Summary};
use super::source::{Source, Text};

/// The bytes of a piece of text.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that a parser has at a time: one in work, and one that waits.
const PIECES_PER_PARSER: usize = 2;
/// The most parsers. One thread reads faster than eight can parse.
const PARSERS_MAX: usize = 8;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a whole trace and puts it in order of time; see the [module](super) for the formats.
///
/// # Errors
/// * [`TraceError::Read`] if reading fails; damaged compressed data is a bad line instead.
/// * [`TraceError::Compressed`] if its compression is not gzip.
/// * [`TraceError::Unrecognised`] if it has lines but none of them can be read.
/// * [`TraceError::Spill`] if it does not fit in memory and temporary files fail.
pub fn read(source: Source, options: Options<'_>) -> Result<Sorted, TraceError> {
    let (name, bytes_total) = (source.name.clone(), source.bytes_total);
    let Text { text, bytes_read } = source.into_text()?;
    let sorter = Sorter::new(options.memory_budget_bytes, FAN_IN, options.temp_dir.clone());
    let piece_bytes = options.memory_budget_bytes.clamp(1, PIECE_BYTES);
    let pieces = Pieces::new(text, piece_bytes);
    let summary = Summary::default();
    let mut reading =
        Reading { name, bytes_total, bytes_read, options, pieces, ended: None, sorter, summary };
    reading.all()?;
    reading.finish()
}

struct Reading<'a, R> {
    name: String,
    bytes_total: Option<u64>,
    bytes_read: Arc<AtomicU64>,
    options: Options<'a>,
    pieces: Pieces<R>,
    /// Why reading ended early.
    ended: Option<io::Error>,
    sorter: Sorter,
    summary: Summary,
}

impl<R: BufRead> Reading<'_, R> {
    fn all(&mut self) -> Result<(), TraceError> {
        let mut parser = PieceParser::new(self.options.names.clone());
        let mut piece = Vec::new();
        let mut is_more = self.next(&mut piece);
        if piece.starts_with(BYTE_ORDER_MARK) {
            piece.drain(..BYTE_ORDER_MARK.len());
        }
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
        let parsers = thread::available_parallelism().map_or(1, NonZero::get).min(PARSERS_MAX);
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..parsers).map(|_| PieceThread::start(scope, parser.clone())).collect();
            let in_turn = |turn: usize| &threads[turn % threads.len()];
            let (mut sent, mut taken) = (0, 0);
            loop {
                in_turn(sent).send(piece);
                sent += 1;
                piece = Vec::new();
                if sent - taken == PIECES_PER_PARSER * threads.len() {
                    // A thread that returns nothing panicked, and the end of the scope says so.
                    let Some((events, summary, text)) = in_turn(taken).next() else { break };
                    self.add(events, summary)?;
                    taken += 1;
                    piece = text;
                }
                if !self.next(&mut piece) {
                    break;
                }
            }
            while taken < sent
                && let Some((events, summary, _)) = in_turn(taken).next()
            {
                self.add(events, summary)?;
                taken += 1;
            }
            Ok(())
        })
    }

    /// Reads the next piece; `false` if there is none.
    fn next(&mut self, piece: &mut Vec<u8>) -> bool {
        self.ended = self.pieces.next(piece).err();
        self.ended.is_none() && !piece.is_empty()
    }

    /// Adds what came of the next piece.
    fn add(&mut self, events: Buffer, summary: Summary) -> Result<(), TraceError> {
        self.summary.append(summary);
        self.report_progress();
        self.sorter.push(events).map_err(|source| {
            let dir = self.options.temp_dir.clone();
            TraceError::Spill { dir, source }
        })
    }

    fn finish(mut self) -> Result<Sorted, TraceError> {
        let (name, lines_read) = (self.name, self.summary.lines);
        if let Some(source) = self.ended {
            let Some(damage) = Damage::of(&source) else {
                return Err(TraceError::Read { name, lines_read, source });
            };
            cut(&mut self.summary, damage, self.pieces.cut_off());
        }
        let Summary { events, bad_lines, .. } = &self.summary;
        if *events == 0 && bad_lines.count > 0 {
            return Err(TraceError::Unrecognised { name, bad_lines: self.summary.bad_lines });
        }
        let Options { temp_dir: dir, names, .. } = self.options;
        let names = Arc::new(names);
        match self.sorter.finish() {
            Ok(in_order) => {
                Ok(Sorted { in_order, names, summary: self.summary, dir, failed: false })
            }
            Err(source) => Err(TraceError::Spill { dir, source }),
        }
    }

    fn report_progress(&mut self) {
        (self.options.on_progress)(Progress {
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes_total: self.bytes_total,
            events: self.summary.events,
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
