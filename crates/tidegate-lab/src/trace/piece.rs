//! The pieces of a trace: their lines parsed into events, on threads.
//!
//! One parser reads until it knows the format; then each thread has a copy of it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

use super::bad_lines::BadLineReason;
use super::buffer::Buffer;
use super::columns::Columns;
use super::format::escaped;
use super::line_parser::LineParser;
use super::lines::{LINE_BYTES_MAX, TraceLine, lines};
use super::record::RecordNames;
use super::sorted::Summary;

/// Parses pieces. Once the format is known, several parsers read the pieces of one trace alike.
#[derive(Debug, Clone)]
pub(super) struct PieceParser {
    parser: LineParser,
    names: RecordNames,
    /// A line that is within another.
    inner: String,
    /// The events of the piece that is being parsed.
    events: Buffer,
}

impl PieceParser {
    pub(super) fn new(parser: LineParser, names: RecordNames) -> Self {
        Self { parser, names, inner: String::new(), events: Buffer::default() }
    }

    /// Returns whether a good line was read, which decides the format of all others.
    pub(super) fn knows_format(&self) -> bool {
        self.parser.knows_format()
    }

    /// The columns of the lines after this piece; `None` if the format has none.
    pub(super) fn columns_after(&self, piece: &[u8]) -> Option<Arc<Columns>> {
        self.parser.columns_after(piece)
    }

    /// Sets the columns that lines have from here on.
    pub(super) fn set_columns(&mut self, columns: Arc<Columns>) {
        self.parser.set_columns(columns);
    }

    /// The events of a piece, sorted. Lines are counted from the start of the piece.
    pub(super) fn parse(&mut self, piece: &[u8]) -> (Buffer, Summary) {
        let mut summary = Summary::default();
        for line in lines(piece) {
            summary.lines += 1;
            self.line(line, &mut summary);
        }
        (self.events.take_sorted(), summary)
    }

    fn line(&mut self, line: TraceLine<'_>, summary: &mut Summary) {
        let text = match line {
            TraceLine::Whole(text) if text.trim_ascii().is_empty() => return,
            TraceLine::Whole(text) => text,
            TraceLine::TooLong(start) => {
                summary.bad_lines.add(summary.lines, too_long(), start);
                return;
            }
        };
        // Bytes are escaped only in a line that fails, so that good lines are read once.
        let read = self.event(text, summary).or_else(|reason| match escaped(text) {
            Some(json) => self.event(&json, summary),
            None => Err(reason),
        });
        if let Err(reason) = read {
            summary.bad_lines.add(summary.lines, reason, text);
        }
    }

    fn event(&mut self, text: &[u8], summary: &mut Summary) -> Result<(), BadLineReason> {
        self.parser.parse(text, &mut self.inner, |event| {
            summary.add(event.at_us, event.of_proxy);
            self.events.push(event, &self.names);
        })
    }
}

/// A thread that parses pieces, one after another, until it is dropped.
pub(super) struct PieceThread {
    pieces: Sender<(Vec<u8>, Option<Arc<Columns>>)>,
    parsed: Receiver<(Buffer, Summary, Vec<u8>)>,
}

impl PieceThread {
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, mut parser: PieceParser) -> Self {
        // Without a bound, because the reader waits for a result before it has too many pieces under way.
        let (pieces, to_parse) = channel::<(Vec<u8>, Option<Arc<Columns>>)>();
        let (done, parsed) = channel();
        scope.spawn(move || {
            for (piece, columns) in to_parse {
                if let Some(columns) = columns {
                    parser.set_columns(columns);
                }
                let (events, summary) = parser.parse(&piece);
                if done.send((events, summary, piece)).is_err() {
                    break;
                }
            }
        });
        Self { pieces, parsed }
    }

    /// Queues a piece, whose lines have these columns.
    pub(super) fn send(&self, piece: Vec<u8>, columns: Option<Arc<Columns>>) {
        // A thread that has ended returns nothing either.
        let _ = self.pieces.send((piece, columns));
    }

    /// Waits for the result of the earliest piece, and returns its text too, to be used again. `None` if the thread
    /// panicked.
    pub(super) fn next(&self) -> Option<(Buffer, Summary, Vec<u8>)> {
        self.parsed.recv().ok()
    }
}

fn too_long() -> BadLineReason {
    format!("the line is longer than {} MiB", LINE_BYTES_MAX >> 20).into()
}
