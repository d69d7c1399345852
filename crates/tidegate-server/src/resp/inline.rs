//! Inline commands, typed by a person: words on a line, in quotes if they contain space. `parse.rs` calls [`split`]
//! for a command that does not begin with `*`.

use super::args::WordRange;

/// Splits a line into words as Redis does; `None` if a quote is not closed, or is followed by
/// anything but space. In double quotes `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH` and `\` before any
/// other byte stand for a byte; in single quotes only `\'` does.
pub(super) fn split(line: &[u8], words: &mut Vec<u8>, spans: &mut Vec<WordRange>) -> Option<()> {
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let start = words.len();
        rest = word(rest, words)?.trim_ascii_start();
        spans.push(WordRange::of(start..words.len()));
    }
    // Never empty, even if all words are: `Parser::args` would take the words from the input otherwise.
    words.push(0);
    Some(())
}

/// Takes one word; returns the bytes after it.
fn word<'a>(mut rest: &'a [u8], into: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return Some(rest),
            [byte, ..] if byte.is_ascii_whitespace() => return Some(rest),
            [quote @ (b'"' | b'\''), after @ ..] => return ended(quoted(*quote, after, into)?),
            [byte, after @ ..] => {
                into.push(*byte);
                rest = after;
            }
        }
    }
}

/// A quote ends its word.
fn ended(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(u8::is_ascii_whitespace).then_some(rest)
}

/// Takes a quoted text; returns the bytes after it.
fn quoted<'a>(quote: u8, mut rest: &'a [u8], into: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, after) = match rest {
            [] => return None,
            [byte, after @ ..] if *byte == quote => return Some(after),
            [b'\\', b'\'', after @ ..] if quote == b'\'' => (b'\'', after),
            [b'\\', escape @ ..] if quote == b'"' => escaped(escape)?,
            [byte, after @ ..] => (*byte, after),
        };
        into.push(byte);
        rest = after;
    }
}

/// The byte after a backslash.
fn escaped(rest: &[u8]) -> Option<(u8, &[u8])> {
    match rest {
        [b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            Some((digit(*high) << 4 | digit(*low), after))
        }
        [byte, after @ ..] => Some((control(*byte), after)),
        [] => None,
    }
}

const fn control(letter: u8) -> u8 {
    match letter {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

/// The value of a hexadecimal digit.
const fn digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20).wrapping_sub(b'a') + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::args::Args;

    fn words(line: &str) -> Option<Vec<String>> {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        split(line.as_bytes(), &mut bytes, &mut spans)?;
        let words = Args::new(&bytes, &spans).iter().map(|word| word.escape_ascii().to_string());
        Some(words.collect())
    }

    #[test]
    fn a_line_is_split_as_redis_splits_it() {
        for (line, expected) in [
            ("", &[][..]),
            ("  \r", &[]),
            (" a  b\r", &["a", "b"]),
            (r#"a "b c" '' "\x41\t\q\"" 'it\'s \n'"#, &["a", "b c", "", r#"A\tq\""#, r"it\'s \\n"]),
            (r#"a"b""#, &["ab"]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_or_not_followed_by_space_is_refused() {
        for line in [r#""a"#, "'a", r#""a"b"#, "'a'b", r#"a"b"c"#, r#""a\"#] {
            assert_eq!(words(line), None, "{line}");
        }
    }
}
