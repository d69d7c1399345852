//! The words of one command, as ranges of the input: none is copied.

use std::ops::Range;

/// The range of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// Commands are far shorter than the numbers can hold.
    pub(super) const fn of(range: Range<usize>) -> Self {
        Self { start: range.start as u32, end: range.end as u32 }
    }

    const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The words of a command, beginning with its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    pub(super) const fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans }
    }

    pub(super) const fn len(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn get(&self, number: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.spans.get(number)?.range())
    }

    /// The word at an index; empty if there is none.
    pub(super) fn word(&self, number: usize) -> &'a [u8] {
        self.get(number).unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Self { bytes, spans } = *self;
        spans.iter().filter_map(move |span| bytes.get(span.range()))
    }

    /// The words without the first ones.
    pub(super) fn skip(&self, words: usize) -> Self {
        Self { bytes: self.bytes, spans: self.spans.get(words..).unwrap_or_default() }
    }
}

/// Words that own their bytes.
#[derive(Clone, Debug)]
pub(super) struct OwnedArgs {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedArgs {
    pub(super) fn as_args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }
}

impl From<Args<'_>> for OwnedArgs {
    fn from(args: Args<'_>) -> Self {
        // The next commands follow the last word.
        let end = args.spans.iter().map(|span| span.end as usize).max().unwrap_or(0);
        let bytes = args.bytes.get(..end).unwrap_or_default();
        Self { bytes: bytes.to_vec(), spans: args.spans.to_vec() }
    }
}

/// A whole number as Redis clients write it; `None` for anything else.
pub(super) fn integer(word: &[u8]) -> Option<i64> {
    /// A number with at most this many digits cannot overflow.
    const SAFE: usize = 18;
    let mut sum = 0;
    for (number, byte) in word.iter().enumerate() {
        match byte {
            b'0'..=b'9' if number < SAFE => sum = sum * 10 + i64::from(byte - b'0'),
            _ => return signed_or_long(word),
        }
    }
    if word.is_empty() { None } else { Some(sum) }
}

#[cold]
fn signed_or_long(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_seen_where_they_lie() {
        let spans = [Span::of(0..2), Span::of(3..3), Span::of(3..6)];
        let args = Args::new(b"ab cde", &spans);
        assert_eq!(args.iter().collect::<Vec<_>>(), [&b"ab"[..], b"", b"cde"]);
        assert_eq!((args.len(), args.get(2), args.get(3)), (3, Some(&b"cde"[..]), None));
        assert_eq!(args.skip(2).word(0), b"cde");
        assert_eq!((args.skip(9).len(), args.skip(9).word(0)), (0, &b""[..]));
        assert_eq!(OwnedArgs::from(args.skip(1)).as_args().word(1), b"cde");
    }

    #[test]
    fn words_that_outlive_a_pipeline_keep_nothing_of_what_is_behind_them() {
        let kept = OwnedArgs::from(Args::new(b"ab cde fgh", &[Span::of(0..2), Span::of(3..6)]));
        assert_eq!((&kept.bytes[..], kept.as_args().word(1)), (&b"ab cde"[..], &b"cde"[..]));
    }

    #[test]
    fn integers_are_those_that_rust_reads() {
        for word in ["0", "7", "-1", "+5", "007", "999999999999999999", "9223372036854775807", ""]
            .into_iter()
            .chain(["9223372036854775808", "-9223372036854775808", " 1", "1 ", "1.0", "x", "-"])
        {
            assert_eq!(integer(word.as_bytes()), word.parse().ok(), "{word:?}");
        }
        assert_eq!(integer(b"\xff"), None);
    }
}
