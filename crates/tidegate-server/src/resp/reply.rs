//! Writes replies, in RESP2 or RESP3, at the end of the output of a connection. Every command writes through
//! [`RespReply`], so that no command has to know the version.

use tidegate::printable;

use crate::refusal::RequestRefusal;

/// The protocol version that a client chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Proto {
    #[default]
    Resp2,
    Resp3,
}

impl Proto {
    pub(super) const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Appends to the replies written already. An array or a map must be followed by as many items, or
/// pairs, as it announces.
#[derive(Debug)]
pub(super) struct RespReply<'a> {
    out: &'a mut Vec<u8>,
    pub(super) proto: Proto,
}

impl<'a> RespReply<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>, proto: Proto) -> Self {
        Self { out, proto }
    }

    /// Continues in another protocol version.
    pub(super) const fn speak(&mut self, proto: Proto) {
        self.proto = proto;
    }

    pub(super) fn ok(&mut self) {
        self.simple("OK");
    }

    /// A short text without a line end.
    pub(super) fn simple(&mut self, text: &'static str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error, with its code first. Line ends in texts of clients become spaces, and what else a terminal obeys is
    /// escaped.
    pub(super) fn error(&mut self, text: &str) {
        let text = text.replace(|c: char| c.is_ascii_control(), " ");
        self.line(b'-', printable::line(&text).as_bytes());
    }

    /// A request that is refused.
    pub(super) fn refuse(&mut self, why: &RequestRefusal) {
        self.error(&format!("{} {}", why.kind.word(), why.detail));
    }

    /// A whole number, at most the largest and at least the smallest that 64 bits with a sign hold.
    #[inline]
    pub(super) fn integer(&mut self, number: impl Into<i128>) {
        let number = number.into().clamp(i64::MIN.into(), i64::MAX.into());
        let units = number.unsigned_abs() as u64;
        if number < 0 {
            self.out.push(b':');
            // The sign stands where `digits` writes the kind.
            self.digits(b'-', units);
        } else {
            self.number(b':', units);
        }
    }

    /// A whole number that may be unknown.
    #[inline]
    pub(super) fn known(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.integer(number),
            None => self.null(),
        }
    }

    /// Items as they stand in the protocol of this reply.
    #[inline(always)]
    pub(super) fn written(&mut self, items: &'static [u8]) {
        self.out.extend_from_slice(items);
    }

    #[inline]
    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.number(b'$', bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    pub(super) fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// Texts, one after another: names and values of a map.
    pub(super) fn texts(&mut self, texts: &[&str]) {
        texts.iter().for_each(|text| self.text(text));
    }

    /// A set of short texts.
    pub(super) fn flags(&mut self, flags: &[&'static str]) {
        self.set(flags.len());
        flags.iter().for_each(|flag| self.simple(flag));
    }

    /// A text to be shown unchanged.
    pub(super) fn verbatim(&mut self, text: &str) {
        match self.proto {
            Proto::Resp2 => self.text(text),
            Proto::Resp3 => {
                self.number(b'=', text.len() as u64 + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(match self.proto {
            Proto::Resp2 => b"$-1\r\n",
            Proto::Resp3 => b"_\r\n",
        });
    }

    /// A boolean; RESP2 has none and gets 1 or 0.
    #[inline(always)]
    pub(super) fn boolean(&mut self, is: bool) {
        self.out.extend_from_slice(match (self.proto, is) {
            (Proto::Resp2, true) => b":1\r\n",
            (Proto::Resp2, false) => b":0\r\n",
            (Proto::Resp3, true) => b"#t\r\n",
            (Proto::Resp3, false) => b"#f\r\n",
        });
    }

    pub(super) fn array(&mut self, items: usize) {
        self.number(b'*', items as u64);
    }

    /// A map; RESP2 has none and gets an array in which each value follows its name.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.proto {
            Proto::Resp2 => self.number(b'*', 2 * pairs as u64),
            Proto::Resp3 => self.number(b'%', pairs as u64),
        }
    }

    /// A set; RESP2 has none and gets an array.
    pub(super) fn set(&mut self, items: usize) {
        match self.proto {
            Proto::Resp2 => self.number(b'*', items as u64),
            Proto::Resp3 => self.number(b'~', items as u64),
        }
    }

    /// A name and a number of a map; the number may be unknown.
    pub(super) fn field(&mut self, name: &'static str, number: Option<u64>) {
        self.text(name);
        self.known(number);
    }

    /// A line of a kind and a number, which is most often one or two digits.
    #[inline]
    fn number(&mut self, kind: u8, number: u64) {
        match number {
            0..10 => self.out.extend_from_slice(&[kind, b'0' + number as u8, b'\r', b'\n']),
            10..100 => {
                let ten = b'0' + (number / 10) as u8;
                let one = b'0' + (number % 10) as u8;
                self.out.extend_from_slice(&[kind, ten, one, b'\r', b'\n']);
            }
            _ => self.digits(kind, number),
        }
    }

    /// A line of a kind and a number of any length.
    fn digits(&mut self, kind: u8, number: u64) {
        self.out.push(kind);
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(proto: Proto, write: impl FnOnce(&mut RespReply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut RespReply::new(&mut out, proto));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_version_has_its_own_kinds() {
        let all = |reply: &mut RespReply<'_>| {
            reply.map(1);
            reply.field("a", None);
            reply.boolean(true);
            reply.set(0);
            reply.verbatim("hi");
        };
        assert_eq!(written(Proto::Resp2, all), "*2\r\n$1\r\na\r\n$-1\r\n:1\r\n*0\r\n$2\r\nhi\r\n");
        assert_eq!(
            written(Proto::Resp3, all),
            "%1\r\n$1\r\na\r\n_\r\n#t\r\n~0\r\n=6\r\ntxt:hi\r\n"
        );
    }

    #[test]
    fn an_error_stays_on_its_line_and_nothing_in_it_is_obeyed() {
        let written_text =
            written(Proto::Resp2, |reply| reply.error("ERR `a\r\n+OK\u{9b}2J\u{202e}`"));
        assert_eq!(written_text, "-ERR `a  +OK\\u{9b}2J\\u{202e}`\r\n");
    }

    #[test]
    fn integers_are_written_whole_up_to_the_largest_of_the_protocol() {
        let written_text = written(Proto::Resp3, |reply| {
            reply.known(Some(u64::MAX));
            reply.known(Some(1 << 63));
            reply.integer(i64::MAX);
            reply.integer(-1_i64);
            reply.integer(i64::MIN);
            reply.integer(0_u8);
            reply.integer(10_u8);
            reply.integer(u64::MAX);
        });
        assert_eq!(
            written_text,
            ":9223372036854775807\r\n".repeat(3)
                + ":-1\r\n:-9223372036854775808\r\n:0\r\n:10\r\n:9223372036854775807\r\n"
        );
    }

    #[test]
    fn a_text_of_any_length_is_written_with_its_length() {
        for length in [0, 1, 9, 10, 11, 99, 100, 12_345] {
            let text = "a".repeat(length);
            let written_text = written(Proto::Resp2, |reply| reply.text(&text));
            assert_eq!(written_text, format!("${length}\r\n{text}\r\n"));
        }
    }
}
