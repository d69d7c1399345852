//! The words of one command, as ranges of the input: none is copied. `parse.rs` finds the ranges, and every command
//! reads its words through [`Args`]; only a command that has to wait copies them ([`OwnedArgs`]).

use std::borrow::Cow;
use std::ops::Range;

use tidegate::key_text;

/// The range of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordRange {
    start: u32,
    end: u32,
}

impl WordRange {
    /// The range in half the space: `COMMAND_BYTES` is far below the largest `u32`.
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
    spans: &'a [WordRange],
    /// True if all words are texts already, with other bytes written as [`key_text`] writes them.
    are_texts: bool,
}

impl<'a> Args<'a> {
    pub(super) const fn new(bytes: &'a [u8], spans: &'a [WordRange]) -> Self {
        Self { bytes, spans, are_texts: false }
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

    /// The word at an index as text, empty if there is none; `None` if it has to be escaped ([`Args::to_texts`]).
    #[inline]
    pub(super) fn text(&self, number: usize) -> Option<&'a str> {
        let word = self.word(number);
        if self.are_texts {
            return std::str::from_utf8(word).ok();
        }
        match key_text(word) {
            Cow::Borrowed(text) => Some(text),
            Cow::Owned(_) => None,
        }
    }

    /// The words as texts.
    pub(super) fn to_texts(self) -> OwnedArgs {
        let mut bytes = Vec::new();
        let mut spans = Vec::with_capacity(self.spans.len());
        for word in self.iter() {
            let start = bytes.len();
            // A text may be longer than its word, so the ranges change, too.
            bytes.extend_from_slice(key_text(word).as_bytes());
            spans.push(WordRange::of(start..bytes.len()));
        }
        OwnedArgs { bytes, spans, are_texts: true }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Self { bytes, spans, .. } = *self;
        spans.iter().filter_map(move |span| bytes.get(span.range()))
    }

    /// The words after the first `words`.
    pub(super) fn skip(&self, words: usize) -> Self {
        Self { spans: self.spans.get(words..).unwrap_or_default(), ..*self }
    }
}

/// Words that own their bytes.
#[derive(Clone, Debug)]
pub(super) struct OwnedArgs {
    bytes: Vec<u8>,
    spans: Vec<WordRange>,
    are_texts: bool,
}

impl OwnedArgs {
    pub(super) fn as_args(&self) -> Args<'_> {
        Args { bytes: &self.bytes, spans: &self.spans, are_texts: self.are_texts }
    }
}

impl From<Args<'_>> for OwnedArgs {
    fn from(args: Args<'_>) -> Self {
        // The next commands follow the last word.
        let end = args.spans.iter().map(|span| span.end as usize).max().unwrap_or(0);
        let bytes = args.bytes.get(..end).unwrap_or_default();
        let are_texts = args.are_texts;
        Self { bytes: bytes.to_vec(), spans: args.spans.to_vec(), are_texts }
    }
}

/// A whole number as Redis clients write it; `None` for anything else.
pub(super) fn integer(word: &[u8]) -> Option<i64> {
    /// A number with at most this many digits cannot overflow.
    const SAFE: usize = 18;
    let mut sum = 0;
    // Nearly every number is short and has no sign.
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
        let spans = [WordRange::of(0..2), WordRange::of(3..3), WordRange::of(3..6)];
        let args = Args::new(b"ab cde", &spans);
        assert_eq!(args.iter().collect::<Vec<_>>(), [&b"ab"[..], b"", b"cde"]);
        assert_eq!((args.len(), args.get(2), args.get(3)), (3, Some(&b"cde"[..]), None));
        assert_eq!(args.skip(2).word(0), b"cde");
        assert_eq!((args.skip(9).len(), args.skip(9).word(0)), (0, &b""[..]));
        assert_eq!(OwnedArgs::from(args.skip(1)).as_args().word(1), b"cde");
    }

    #[test]
    fn words_that_outlive_a_pipeline_keep_nothing_of_what_is_behind_them() {
        let kept =
            OwnedArgs::from(Args::new(b"ab cde fgh", &[WordRange::of(0..2), WordRange::of(3..6)]));
        assert_eq!((&kept.bytes[..], kept.as_args().word(1)), (&b"ab cde"[..], &b"cde"[..]));
    }

    #[test]
    fn words_that_are_no_text_become_one_of_their_own() {
        let spans =
            [WordRange::of(0..1), WordRange::of(1..2), WordRange::of(2..6), WordRange::of(6..6)];
        let args = Args::new(b"a\xff\\xff", &spans);
        assert_eq!([0, 1, 2, 3].map(|number| args.text(number)), [Some("a"), None, None, Some("")]);
        let texts = args.to_texts();
        let read = [0, 1, 2, 3].map(|number| texts.as_args().skip(0).text(number));
        assert_eq!(read, [Some("a"), Some(r"\xff"), Some(r"\x5cxff"), Some("")]);
        assert_eq!(OwnedArgs::from(texts.as_args()).as_args().text(1), Some(r"\xff"));
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
