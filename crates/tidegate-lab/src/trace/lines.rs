//! The text of a trace in pieces of whole lines, and the lines of a piece.
//!
//! The reader of a source takes pieces from here. Threads parse their lines.

use std::io::{self, BufRead, ErrorKind};
use std::mem;

use memchr::{memchr, memrchr};

/// The longest line that is read, in bytes without its end: 1 MiB.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// The maximum bytes that are kept of a line: room for a carriage return, and one byte more, so that a line with
/// dropped bytes is still too long.
const KEPT_BYTES_MAX: usize = LINE_BYTES_MAX + 2;

/// Cuts the bytes of a reader into pieces of whole lines. A piece is as long as requested, or one
/// longer line, and never holds more than both together for any input.
pub(super) struct Pieces<R> {
    reader: R,
    piece_bytes: usize,
    /// Bytes that were read and not returned yet.
    text: Vec<u8>,
    /// The start of the last line of `text`, which has no end yet.
    last_line: usize,
    failed: Option<io::Error>,
}

impl<R: BufRead> Pieces<R> {
    /// `piece_bytes` is at least 1.
    pub(super) fn new(reader: R, piece_bytes: usize) -> Self {
        Self { reader, piece_bytes, text: Vec::new(), last_line: 0, failed: None }
    }

    /// Replaces `piece` by the next piece, which is empty at the end of the input. The last line of the input may have
    /// no end.
    ///
    /// If the reader fails, the whole lines before the error come first.
    pub(super) fn next(&mut self, piece: &mut Vec<u8>) -> io::Result<()> {
        while self.last_line < self.piece_bytes && self.failed.is_none() {
            match self.read_more() {
                Ok(true) => {}
                Ok(false) => {
                    // The last line of the input needs no end, so it counts as whole.
                    self.last_line = self.text.len();
                    break;
                }
                Err(error) => self.failed = Some(error),
            }
        }
        if self.last_line == 0
            && let Some(error) = self.failed.take()
        {
            return Err(error);
        }
        // The begun line moves to the buffer of the last piece, which takes its place: so neither
        // the whole lines nor the memory of either are copied.
        piece.clear();
        piece.extend_from_slice(&self.text[self.last_line..]);
        self.text.truncate(self.last_line);
        mem::swap(piece, &mut self.text);
        self.last_line = 0;
        Ok(())
    }

    /// The part of a line during which [`Self::next`] returned an error.
    pub(super) fn cut_off(&self) -> &[u8] {
        &self.text
    }

    /// Takes the bytes that the reader has ready, but no more of a line than is kept of it; `false`
    /// at the end of the input.
    fn read_more(&mut self) -> io::Result<bool> {
        let ready = loop {
            match self.reader.fill_buf() {
                Ok([]) => return Ok(false),
                Ok(bytes) => break bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        };
        // Only the rest of the begun line is cut: the lines after it are no longer than the buffer
        // of the reader, until one of them is the begun line.
        let end = memchr(b'\n', ready).unwrap_or(ready.len());
        let space = KEPT_BYTES_MAX.saturating_sub(self.text.len() - self.last_line);
        self.text.extend_from_slice(&ready[..end.min(space)]);
        self.text.extend_from_slice(&ready[end..]);
        if let Some(last) = memrchr(b'\n', &ready[end..]) {
            // `text` ends with the bytes of `ready` from `end` on; the last line begins
            // after its last line end.
            self.last_line = self.text.len() - (ready.len() - end) + last + 1;
        }
        let taken = ready.len();
        self.reader.consume(taken);
        Ok(true)
    }
}

/// One line without its `\n` or `\r\n`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TraceLine<'a> {
    Whole(&'a [u8]),
    /// Longer than [`LINE_BYTES_MAX`]; only the beginning was kept.
    TooLong(&'a [u8]),
}

/// The lines of a piece. A last line without an end counts.
pub(super) fn lines(piece: &[u8]) -> impl Iterator<Item = TraceLine<'_>> {
    let mut rest = piece;
    std::iter::from_fn(move || {
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        // A piece that ends with a line end has no empty line after it.
        let line = rest.get(..end).filter(|_| !rest.is_empty())?;
        rest = rest.get(end + 1..).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let too_long = line.len() > LINE_BYTES_MAX;
        Some(if too_long { TraceLine::TooLong(line) } else { TraceLine::Whole(line) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    /// The length of each line, negative if it was too long.
    fn lengths(input: &[u8], buffer_bytes: usize, piece_bytes: usize) -> Vec<i64> {
        let mut pieces = Pieces::new(BufReader::with_capacity(buffer_bytes, input), piece_bytes);
        let (mut piece, mut found) = (Vec::new(), Vec::new());
        loop {
            pieces.next(&mut piece).unwrap();
            if piece.is_empty() {
                return found;
            }
            assert!(piece.len() <= piece_bytes + buffer_bytes + KEPT_BYTES_MAX + 1);
            found.extend(lines(&piece).map(|line| match line {
                TraceLine::Whole(text) => text.len() as i64,
                TraceLine::TooLong(_) => -1,
            }));
        }
    }

    #[test]
    fn line_ends() {
        for (buffer_bytes, piece_bytes) in [(1, 1), (2, 1), (3, 4), (100, 1), (100, 100)] {
            let of = |text: &[u8]| lengths(text, buffer_bytes, piece_bytes);
            assert_eq!(of(b""), Vec::<i64>::new());
            assert_eq!(of(b"a"), [1]);
            assert_eq!(of(b"a\n"), [1]);
            assert_eq!(of(b"a\r\nbb\r\n"), [1, 2]);
            assert_eq!(of(b"\n\na\n\n"), [0, 0, 1, 0]);
            assert_eq!(of(b"a\rb\n\r"), [3, 0]);
        }
    }

    #[test]
    fn a_line_over_the_longest_is_too_long_and_costs_no_other() {
        let max = LINE_BYTES_MAX;
        let cases: [(usize, &[u8], i64); 9] = [
            (max, b"\n", max as i64),
            (max, b"\r\n", max as i64),
            (max, b"", max as i64),
            (max + 1, b"\n", -1),
            (max + 1, b"\r\n", -1),
            (max, b"\rx\n", -1),
            (max, b"\rx", -1),
            (max, b"\rxy\n", -1),
            (3 * max, b"\n", -1),
        ];
        for (x, end, expected) in cases {
            let mut input = vec![b'x'; x];
            input.extend_from_slice(end);
            let closed = end.ends_with(b"\n");
            input.extend_from_slice(if closed { b"ok" } else { b"" });
            let wanted = if closed { vec![expected, 2] } else { vec![expected] };
            for piece_bytes in [1, 100_000] {
                assert_eq!(lengths(&input, 8192, piece_bytes), wanted, "{x} {end:?}");
            }
        }
    }

    #[test]
    fn whole_lines_come_before_an_error_and_the_cut_line_after_it() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the cable is out"))
            }
        }
        let mut pieces = Pieces::new(BufReader::new(b"a\nb\nc".chain(Fails)), 100);
        let mut piece = Vec::new();
        pieces.next(&mut piece).unwrap();
        assert_eq!(piece, b"a\nb\n");
        pieces.next(&mut piece).unwrap_err();
        assert_eq!(pieces.cut_off(), b"c");
    }
}
