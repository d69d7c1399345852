//! Finds one command after another in the bytes of a connection, however they are split, without
//! copying. `connection.rs` calls [`Parser::parse`] until no command is complete.
//!
//! Existing codecs return each command as a tree of allocated frames. A command here is a list of
//! ranges of the input, so that a decision allocates nothing.

use super::args::{Args, WordRange};
use super::bounds::{AUTHENTICATED, COMMAND_BYTES, InputBounds, WORD_BYTES, WORDS};
use super::inline;

/// Why the input cannot be parsed any further. It is reported, and the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParseMistake {
    WordCount,
    WordLength,
    WordCountTooLong,
    WordLengthTooLong,
    NoWord {
        came: u8,
    },
    WordNotEnded,
    TooLong,
    InlineTooLong,
    /// More than a client may send before it has authenticated.
    Unauthenticated(&'static str),
    Quotes,
    Http,
}

impl ParseMistake {
    /// The message, in the wording of Redis if Redis has one.
    pub(super) fn message(self) -> String {
        let what = match self {
            Self::WordCount => format!("invalid multibulk length: expected at most {WORDS}"),
            Self::WordLength => format!("invalid bulk length: expected 0 to {WORD_BYTES}"),
            Self::WordCountTooLong => "too big mbulk count string".to_owned(),
            Self::WordLengthTooLong => "too big bulk count string".to_owned(),
            Self::NoWord { came } => format!("expected '$', got '{}'", came.escape_ascii()),
            Self::WordNotEnded => "expected CR LF after a bulk string".to_owned(),
            Self::TooLong => format!("too big command: expected at most {COMMAND_BYTES} bytes"),
            Self::InlineTooLong => "too big inline request".to_owned(),
            Self::Unauthenticated(what) => format!("unauthenticated {what} length"),
            Self::Quotes => "unbalanced quotes in request".to_owned(),
            Self::Http => "this is HTTP, and RESP is spoken here".to_owned(),
        };
        format!("ERR Protocol error: {what}")
    }
}

/// The parser's position in the current command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    /// The number of words still to come.
    Words {
        left: usize,
    },
    /// An inline command, up to the line end.
    Inline,
}

/// Parses the current command. With more bytes it continues where it stopped.
#[derive(Debug)]
pub(super) struct Parser {
    stage: Stage,
    /// Bytes of the command that are already parsed.
    at: usize,
    /// The bounds of one command.
    pub(super) bounds: &'static InputBounds,
    spans: Vec<WordRange>,
    /// The words of an inline command, without their quotes.
    unquoted: Vec<u8>,
}

impl Parser {
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Start,
            at: 0,
            bounds: &AUTHENTICATED,
            spans: Vec::with_capacity(16),
            unquoted: Vec::new(),
        }
    }

    /// Parses the command that `bytes` begins with: returns its length in bytes, or `None` if it is
    /// incomplete. Its words are then [`Parser::args`], until the next parse.
    ///
    /// # Errors
    /// Returns an error if the bytes cannot be the beginning of any command.
    pub(super) fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, ParseMistake> {
        if self.stage == Stage::Start && !self.begin(bytes)? {
            return Ok(None);
        }
        let ended = match self.stage {
            Stage::Inline => self.line(bytes)?,
            Stage::Start | Stage::Words { .. } => self.words(bytes)?,
        };
        if !ended {
            return Ok(None);
        }
        self.stage = Stage::Start;
        Ok(Some(std::mem::take(&mut self.at)))
    }

    /// The words of the last complete command, which was found in `bytes`; none for an empty
    /// command.
    pub(super) fn args<'a>(&'a self, bytes: &'a [u8]) -> Args<'a> {
        Args::new(if self.unquoted.is_empty() { bytes } else { &self.unquoted }, &self.spans)
    }

    /// Finds the kind of the command; returns false if it needs more bytes.
    fn begin(&mut self, bytes: &[u8]) -> Result<bool, ParseMistake> {
        self.spans.clear();
        self.unquoted.clear();
        match bytes.first() {
            None => return Ok(false),
            Some(b'*') => {}
            Some(_) => {
                self.stage = Stage::Inline;
                return Ok(true);
            }
        }
        let Some((count, at)) =
            length(bytes, 1, ParseMistake::WordCount, ParseMistake::WordCountTooLong)?
        else {
            return Ok(false);
        };
        // A negative count means none, as in Redis.
        let left = usize::try_from(count).unwrap_or(0);
        self.counts(left)?;
        self.stage = Stage::Words { left };
        self.at = at;
        Ok(true)
    }

    /// Checks the number of words.
    fn counts(&self, words: usize) -> Result<(), ParseMistake> {
        if words <= self.bounds.words {
            Ok(())
        } else if words <= WORDS {
            Err(ParseMistake::Unauthenticated("multibulk"))
        } else {
            Err(ParseMistake::WordCount)
        }
    }

    /// Continues with the words; returns whether all have arrived.
    fn words(&mut self, bytes: &[u8]) -> Result<bool, ParseMistake> {
        let Stage::Words { mut left } = self.stage else { return Ok(false) };
        while left > 0 {
            let Some((word, at)) = word(bytes, self.at, self.bounds)? else { break };
            self.spans.push(word);
            self.at = at;
            left -= 1;
        }
        // Words that have arrived are not parsed again when more bytes come.
        self.stage = Stage::Words { left };
        Ok(left == 0)
    }

    /// Continues with an inline command; returns whether its line has ended.
    fn line(&mut self, bytes: &[u8]) -> Result<bool, ParseMistake> {
        let rest = bytes.get(self.at..).unwrap_or_default();
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            // The bytes so far are not searched again.
            self.at = bytes.len();
            return if self.at > self.bounds.inline_bytes {
                Err(ParseMistake::InlineTooLong)
            } else {
                Ok(false)
            };
        };
        let line = bytes.get(..self.at + end).unwrap_or_default();
        if line.len() > self.bounds.inline_bytes {
            return Err(ParseMistake::InlineTooLong);
        }
        self.at += end + 1;
        inline::split(line, &mut self.unquoted, &mut self.spans).ok_or(ParseMistake::Quotes)?;
        self.counts(self.spans.len())?;
        // A browser can be made to send this command: it must not use up another client's limit.
        let name = self.args(bytes).word(0);
        let is_http = name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:");
        if is_http { Err(ParseMistake::Http) } else { Ok(true) }
    }
}

/// The word whose length begins at `from`, and the position of the next word.
#[inline]
fn word(
    bytes: &[u8],
    from: usize,
    bounds: &InputBounds,
) -> Result<Option<(WordRange, usize)>, ParseMistake> {
    // Most words are short, and all is there.
    if let Some([b'$', digit @ b'0'..=b'9', b'\r', b'\n', rest @ ..]) = bytes.get(from..) {
        let start = from + 4;
        let count = usize::from(digit - b'0');
        let end = start + count;
        if rest.get(count..count + 2) == Some(b"\r\n") && end + 2 <= bounds.command_bytes {
            return Ok(Some((WordRange::of(start..end), end + 2)));
        }
    }
    match bytes.get(from) {
        None => return Ok(None),
        Some(b'$') => {}
        Some(came) => return Err(ParseMistake::NoWord { came: *came }),
    }
    let Some((count, start)) =
        length(bytes, from + 1, ParseMistake::WordLength, ParseMistake::WordLengthTooLong)?
    else {
        return Ok(None);
    };
    let count = usize::try_from(count).map_err(|_| ParseMistake::WordLength)?;
    if count > WORD_BYTES {
        return Err(ParseMistake::WordLength);
    }
    let end = start + count;
    // The length is checked before the word has arrived, so that a refused word takes no memory.
    if count > bounds.word_bytes || end + 2 > bounds.command_bytes {
        // Only a client that has not authenticated has smaller bounds.
        return Err(if bounds.words < WORDS {
            ParseMistake::Unauthenticated("bulk")
        } else {
            ParseMistake::TooLong
        });
    }
    match bytes.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((WordRange::of(start..end), end + 2))),
        Some(_) => Err(ParseMistake::WordNotEnded),
    }
}

/// The number from `from` to the end of its line, and the position of the next line.
#[inline]
fn length(
    bytes: &[u8],
    from: usize,
    wrong: ParseMistake,
    too_long: ParseMistake,
) -> Result<Option<(i64, usize)>, ParseMistake> {
    /// No accepted number has more digits.
    const LONGEST: usize = 20;
    let rest = bytes.get(from..).unwrap_or_default();
    // Most lengths have one or two digits, and all is there.
    match rest {
        [one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            return Ok(Some((i64::from(one - b'0'), from + 3)));
        }
        [ten @ b'0'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            let number = 10 * i64::from(ten - b'0') + i64::from(one - b'0');
            return Ok(Some((number, from + 4)));
        }
        _ => {}
    }
    let Some(end) = rest.iter().take(LONGEST + 1).position(|byte| *byte == b'\r') else {
        return if rest.len() > LONGEST { Err(too_long) } else { Ok(None) };
    };
    match rest.get(end + 1) {
        // The CR may be the last byte that has arrived.
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(wrong),
    }
    let number = rest.get(..end).and_then(super::args::integer).ok_or(wrong)?;
    Ok(Some((number, from + end + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::bounds::{INLINE_BYTES, UNAUTHENTICATED};

    /// The commands of some bytes, in two parts.
    fn commands(parts: [&[u8]; 2]) -> Result<Vec<Vec<Vec<u8>>>, ParseMistake> {
        let (mut parser, mut buffer, mut all) = (Parser::new(), Vec::new(), Vec::new());
        for part in parts {
            buffer.extend_from_slice(part);
            while let Some(bytes) = parser.parse(&buffer)? {
                all.push(parser.args(&buffer).iter().map(<[u8]>::to_vec).collect());
                buffer.drain(..bytes);
            }
        }
        Ok(all)
    }

    #[test]
    fn commands_are_the_same_wherever_they_are_cut() {
        let sent = b"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n*0\r\nPING \"a\\x41 b\"\r\n\n*-1\r\n*1\r\n$0\r\n\r\n";
        let whole = commands([sent, b""]).unwrap();
        let expected: [&[&[u8]]; 6] =
            [&[b"ECHO", b"a\r\n"], &[], &[b"PING", b"aA b"], &[], &[], &[b""]];
        assert_eq!(whole, expected);
        for cut in 0..=sent.len() {
            let (head, tail) = sent.split_at(cut);
            assert_eq!(commands([head, tail]).as_ref(), Ok(&whole), "cut at {cut}");
        }
    }

    #[test]
    fn bytes_that_cannot_be_a_command_are_refused_as_soon_as_they_are_read() {
        let long = [b'a'; INLINE_BYTES + 1];
        for (sent, mistake) in [
            (&b"*1025\r\n"[..], ParseMistake::WordCount),
            (b"*x\r\n", ParseMistake::WordCount),
            (b"*1\rx", ParseMistake::WordCount),
            (b"*99999999999999999999999", ParseMistake::WordCountTooLong),
            (b"*1\r\n+", ParseMistake::NoWord { came: b'+' }),
            (b"*1\r\n$-1\r\n", ParseMistake::WordLength),
            (b"*1\r\n$65537\r\n", ParseMistake::WordLength),
            (b"*1\r\n$000000000000000000000", ParseMistake::WordLengthTooLong),
            (b"*1\r\n$1\r\nabc", ParseMistake::WordNotEnded),
            (b"say \"a\n", ParseMistake::Quotes),
            (b"POST / HTTP/1.1\r\n", ParseMistake::Http),
            (b"Host: a\r\n", ParseMistake::Http),
            (&long, ParseMistake::InlineTooLong),
        ] {
            assert_eq!(commands([sent, b""]), Err(mistake), "{}", sent.escape_ascii());
            assert!(mistake.message().starts_with("ERR Protocol error: "));
        }
    }

    #[test]
    fn a_command_is_no_longer_than_it_may_be_however_few_its_words() {
        let word = [b"$65536\r\n".as_slice(), &[b'a'; WORD_BYTES], b"\r\n"].concat();
        let three = [b"*3\r\n".as_slice(), &word, &word, &word].concat();
        assert_eq!(commands([&three, b""]).unwrap().len(), 1);
        let five = [b"*5\r\n".as_slice(), &word, &word, &word, &word, &word].concat();
        assert_eq!(commands([&five, b""]), Err(ParseMistake::TooLong));
    }

    #[test]
    fn a_stranger_may_send_what_it_needs_to_say_who_it_is() {
        let long = [b"*2\r\n$16000\r\n".as_slice(), &[b'a'; 16_000], b"\r\n"].concat();
        let inline = [b'a'; (16 << 10) + 1];
        for (sent, mistake) in [
            (&b"*10\r\n$16000\r\n"[..], None),
            (b"*11\r\n", Some(ParseMistake::Unauthenticated("multibulk"))),
            (b"*1025\r\n", Some(ParseMistake::WordCount)),
            (b"1 2 3 4 5 6 7 8 9 10 11\n", Some(ParseMistake::Unauthenticated("multibulk"))),
            (b"*1\r\n$16385\r\n", Some(ParseMistake::Unauthenticated("bulk"))),
            (&[&long[..], b"$400\r\n"].concat(), Some(ParseMistake::Unauthenticated("bulk"))),
            (&inline, Some(ParseMistake::InlineTooLong)),
        ] {
            let mut parser = Parser::new();
            parser.bounds = &UNAUTHENTICATED;
            assert_eq!(parser.parse(sent).err(), mistake, "{}", sent.escape_ascii());
        }
    }
}
