//! Lines of bounded length from any reader.

use std::io::{self, BufRead, ErrorKind};

use memchr::memchr;

/// The longest line that is read, in bytes without its end: 1 MiB.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;

/// One line without its `\n` or `\r\n`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// Longer than [`LINE_BYTES_MAX`]; only the beginning was kept.
    TooLong(&'a [u8]),
}

/// Splits the bytes of a reader into lines, and never holds more than one line of the longest
/// length, whatever the input.
pub(super) struct Lines<R> {
    reader: R,
    kept: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, kept: Vec::new() }
    }

    /// The next line, or `None` at the end. A last line without an end counts.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.kept.clear();
        let mut text_bytes: usize = 0;
        loop {
            match self.take_part()? {
                None if text_bytes == 0 => return Ok(None),
                None => break,
                Some(part) => {
                    text_bytes = text_bytes.saturating_add(part.text_bytes);
                    if part.ends_line {
                        break;
                    }
                }
            }
        }
        // One byte more than the longest line is kept, for a carriage return.
        let line = self.kept.strip_suffix(b"\r").unwrap_or(&self.kept);
        let too_long = text_bytes > LINE_BYTES_MAX + 1 || line.len() > LINE_BYTES_MAX;
        Ok(Some(if too_long { Line::TooLong(line) } else { Line::Whole(line) }))
    }

    /// The part of the line during which [`Self::next`] returned an error.
    pub(super) fn cut_off(&self) -> &[u8] {
        &self.kept
    }

    /// Takes the bytes of the current line that the reader has ready; `None` at the end of the
    /// input.
    fn take_part(&mut self) -> io::Result<Option<Part>> {
        let at_hand = loop {
            match self.reader.fill_buf() {
                Ok([]) => return Ok(None),
                Ok(bytes) => break bytes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        };
        let end = memchr(b'\n', at_hand);
        let text = &at_hand[..end.unwrap_or(at_hand.len())];
        let room = (LINE_BYTES_MAX + 1).saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&text[..text.len().min(room)]);
        let part = Part { text_bytes: text.len(), ends_line: end.is_some() };
        self.reader.consume(part.text_bytes + usize::from(part.ends_line));
        Ok(Some(part))
    }
}

struct Part {
    text_bytes: usize,
    ends_line: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// The length of each line, negative if it was too long.
    fn lengths(input: &[u8], buffer_bytes: usize) -> Vec<i64> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer_bytes, input));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(match line {
                Line::Whole(text) => text.len() as i64,
                Line::TooLong(_) => -1,
            });
        }
        assert!(lines.kept.capacity() <= 2 * LINE_BYTES_MAX + 2);
        found
    }

    #[test]
    fn line_ends() {
        for buffer_bytes in [1, 2, 3, 100] {
            let of = |text: &[u8]| lengths(text, buffer_bytes);
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
            assert_eq!(lengths(&input, 8192), wanted, "{x} {end:?}");
        }
    }
}
