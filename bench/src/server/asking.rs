//! Request encoders and reply parsers of our own load generators, for each listener. They are cheap, because the
//! generators share the cores with the server.

use super::{http_2, no_op};
use crate::resp;
use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Stands for the number of a caller, in commands of redis-benchmark too.
pub const CALLER: &str = "__rand_int__";
/// The time that an answer may take, beyond which it is none.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A listener of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// Commands of RESP.
    Resp,
    /// `POST /v1/check` over HTTP/1.1.
    Http,
    /// `ShouldRateLimit` of Envoy's service.
    Grpc,
}

impl Listener {
    /// The option of the server that opens it.
    pub const fn option(self) -> &'static str {
        match self {
            Self::Resp => "--resp",
            Self::Http => "--http",
            Self::Grpc => "--grpc",
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.option().trim_start_matches('-'))
    }
}

/// The content of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub allowed: bool,
    /// True if the store decided.
    pub exact: bool,
}

/// The first bytes that were read of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Something that is not all there yet.
    More,
    /// A number of bytes that end no answer.
    Other(usize),
    /// A number of bytes that end an answer, to the oldest request or to the request at the place.
    Answer(usize, Verdict, Option<usize>),
}

/// A request with holes.
pub struct Template {
    bytes: Vec<u8>,
    /// Where the number of the caller is.
    caller: usize,
    /// Where the number of the stream is.
    streams: Vec<usize>,
}

impl Template {
    /// One caller under the rules of a domain.
    pub fn new(listener: Listener, domain: &str) -> Self {
        match listener {
            Listener::Resp => Self::command(&["TG.CHECK", domain, "user", CALLER]),
            Listener::Http => {
                let body = format!(r#"{{"domain":"{domain}","descriptor":{{"user":"{CALLER}"}}}}"#);
                let length = body.len();
                let head =
                    "POST /v1/check HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json";
                let request = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
                Self::of(request.into_bytes(), Vec::new())
            }
            Listener::Grpc => {
                let call = http_2::call(0, &no_op::body(domain, CALLER));
                let streams = http_2::streams(&call);
                Self::of(call, streams)
            }
        }
    }

    /// A command of RESP.
    pub fn command(words: &[&str]) -> Self {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        Self::of(resp::command(&words), Vec::new())
    }

    fn of(bytes: Vec<u8>, streams: Vec<usize>) -> Self {
        let caller = bytes.windows(CALLER.len()).position(|part| part == CALLER.as_bytes());
        Self { bytes, caller: caller.unwrap_or_default(), streams }
    }

    /// Writes the request of a caller, the `place`th of its connection.
    pub fn write(&self, out: &mut Vec<u8>, caller: usize, place: usize) {
        let begins = out.len();
        out.extend_from_slice(&self.bytes);
        let mut rest = caller;
        for digit in out[begins + self.caller..][..CALLER.len()].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        for at in &self.streams {
            let stream = u32::try_from(2 * place + 1).unwrap_or(u32::MAX);
            out[begins + at..][..4].copy_from_slice(&stream.to_be_bytes());
        }
    }
}

/// A connection cannot be used.
pub fn lost(error: std::io::Error) -> String {
    format!("the connection was lost: {error}")
}

/// Opens a connection.
///
/// # Errors
/// If no server answers, or not as the listener does.
pub fn open(listener: Listener, at: SocketAddr) -> Result<TcpStream, String> {
    let failed = |error: std::io::Error| format!("cannot connect to {at}: {error}");
    let mut stream = TcpStream::connect(at).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    if listener == Listener::Grpc {
        http_2::begin(&mut stream)?;
    }
    stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
    Ok(stream)
}

/// The reader of one connection's answers.
pub struct Answers {
    listener: Listener,
    /// Verdicts of calls that have not ended, each with its stream.
    begun: Vec<(u32, Verdict)>,
}

impl Answers {
    pub const fn new(listener: Listener) -> Self {
        Self { listener, begun: Vec::new() }
    }

    /// Tells what bytes begin with; to be asked again with the rest of them.
    ///
    /// # Errors
    /// When they are no answer.
    pub fn next(&mut self, read: &[u8]) -> Result<Begins, String> {
        match self.listener {
            Listener::Resp => resp_answer(read),
            Listener::Http => http_answer(read),
            Listener::Grpc => self.grpc_answer(read),
        }
    }

    fn grpc_answer(&mut self, read: &[u8]) -> Result<Begins, String> {
        let Some((frame, payload, bytes)) = http_2::frame_of(read) else { return Ok(Begins::More) };
        if frame.breaks_off() {
            return Err("the server broke off".to_owned());
        }
        if let Some(message) = frame.is_data().then(|| payload.get(5..)).flatten() {
            // The first field: 1 is OK, 2 is OVER_LIMIT. Names of metadata stand as they are.
            let allowed = message.starts_with(&[8, 1]);
            let exact = !has(message, b"degraded") && !has(message, b"overloaded");
            self.begun.push((frame.stream, Verdict { allowed, exact }));
        }
        if !frame.ends_stream() {
            return Ok(Begins::Other(bytes));
        }
        let place = self.begun.iter().position(|(stream, _)| *stream == frame.stream);
        // An error has no message: no decision was taken.
        let verdict = place.map_or_else(Verdict::default, |place| self.begun.swap_remove(place).1);
        Ok(Begins::Answer(bytes, verdict, Some(frame.stream as usize / 2)))
    }
}

/// A map of RESP2, which has names, each before its value; or the integers of `CL.THROTTLE`, which begin with 0 for yes;
/// or what a Redis says to a command that decides nothing. An error is no decision.
fn resp_answer(read: &[u8]) -> Result<Begins, String> {
    let mut words = Words { read, at: 0 };
    let mut verdict = Verdict { allowed: true, exact: true };
    let Some(first) = words.line() else { return Ok(Begins::More) };
    match first.split_first() {
        Some((b'-', _)) => verdict = Verdict::default(),
        Some((b'+' | b':', _)) => {}
        Some((b'*', count)) => {
            let mut name: &[u8] = b"";
            for place in 0..number(count)? {
                let Some(word) = words.word()? else { return Ok(Begins::More) };
                match name {
                    _ if place == 0 => verdict.allowed = word == b"0",
                    b"allowed" => verdict.allowed = word == b"1",
                    b"degraded" | b"overloaded" if word == b"1" => verdict.exact = false,
                    _ => {}
                }
                name = word;
            }
        }
        _ => return Err(format!("an answer of {:?}", String::from_utf8_lossy(first))),
    }
    Ok(Begins::Answer(words.at, verdict, None))
}

/// The words of a reply of RESP2, one after the other.
struct Words<'a> {
    read: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.read.get(self.at..)?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        self.at += end + 1;
        Some(rest[..end].trim_ascii_end())
    }

    /// A text, or the digits of a number; nothing where it is null.
    fn word(&mut self) -> Result<Option<&'a [u8]>, String> {
        let Some(line) = self.line() else { return Ok(None) };
        let Some((b'$', length)) = line.split_first() else {
            return Ok(Some(line.get(1..).unwrap_or_default()));
        };
        let Ok(length) = usize::try_from(number(length)?) else { return Ok(Some(b"")) };
        let word = self.read.get(self.at..self.at + length);
        self.at += length + 2;
        Ok(word.filter(|_| self.at <= self.read.len()))
    }
}

fn number(digits: &[u8]) -> Result<i64, String> {
    let text = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
    text.ok_or_else(|| format!("a length of {:?}", String::from_utf8_lossy(digits)))
}

/// An answer of HTTP/1.1 and its body of JSON.
fn http_answer(read: &[u8]) -> Result<Begins, String> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut answer = httparse::Response::new(&mut fields);
    let parsed = answer.parse(read).map_err(|error| format!("a check was answered {error}"))?;
    let httparse::Status::Complete(head) = parsed else { return Ok(Begins::More) };
    let allowed = match answer.code {
        Some(200 | 204) => true,
        Some(429 | 422 | 503) => false,
        status => return Err(format!("a check was answered {status:?}")),
    };
    let is_length = |field: &&httparse::Header| field.name.eq_ignore_ascii_case("content-length");
    let length =
        answer.headers.iter().find(is_length).map_or(Ok(0), |field| number(field.value))?;
    let length = usize::try_from(length).map_err(|_| format!("a length of {length}"))?;
    let Some(body) = read.get(head..head + length) else { return Ok(Begins::More) };
    let decided = answer.code != Some(503);
    let exact = decided && !has(body, br#""degraded":true"#) && !has(body, br#""overloaded":true"#);
    Ok(Begins::Answer(head + length, Verdict { allowed, exact }, None))
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    let first = part.first();
    let mut begins = bytes.iter().enumerate().filter(|(_, byte)| Some(*byte) == first);
    begins.any(|(at, _)| bytes[at..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(listener: Listener, bytes: &[u8]) -> Begins {
        Answers::new(listener).next(bytes).unwrap()
    }

    #[test]
    fn a_map_says_who_decided() {
        let message = |allowed: u8, degraded: u8| {
            let text = format!(
                "*8\r\n$7\r\nallowed\r\n:{allowed}\r\n$4\r\nrule\r\n$-1\r\n$5\r\nlimit\r\n:500\r\n\
                 $8\r\ndegraded\r\n:{degraded}\r\n"
            );
            text.into_bytes()
        };
        for (allowed, degraded) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let bytes = message(allowed, degraded);
            let verdict = Verdict { allowed: allowed == 1, exact: degraded == 0 };
            let answer = Begins::Answer(bytes.len(), verdict, None);
            assert_eq!(first(Listener::Resp, &[&bytes[..], b"*8\r\n"].concat()), answer);
            for end in 0..bytes.len() {
                assert_eq!(first(Listener::Resp, &bytes[..end]), Begins::More, "{end}");
            }
        }
        let error = Begins::Answer(9, Verdict::default(), None);
        assert_eq!(first(Listener::Resp, b"-ERR no\r\n"), error);
    }

    #[test]
    fn integers_begin_with_the_verdict_and_other_commands_are_admitted() {
        for (bytes, allowed) in [
            ("*5\r\n:0\r\n:9\r\n:8\r\n:-1\r\n:1\r\n", true),
            ("*2\r\n:1\r\n:0\r\n", false),
            (":12\r\n", true),
            ("+OK\r\n", true),
        ] {
            let answer = Begins::Answer(bytes.len(), Verdict { allowed, exact: true }, None);
            assert_eq!(first(Listener::Resp, format!("{bytes}:1").as_bytes()), answer);
            assert_eq!(first(Listener::Resp, &bytes.as_bytes()[..bytes.len() - 1]), Begins::More);
        }
    }

    #[test]
    fn a_call_is_answered_by_its_message_and_ends_with_its_stream() {
        let mut answers = Answers::new(Listener::Grpc);
        let message = [&[0, 0, 0, 0, 2, 8, 1][..], b"degraded"].concat();
        let data = http_2::frame(http_2::DATA, 0, 7, &message);
        assert_eq!(answers.next(&data[..12]), Ok(Begins::More));
        assert_eq!(answers.next(&data), Ok(Begins::Other(data.len())));
        let trailers = http_2::frame(http_2::HEADERS, http_2::END_STREAM, 7, b"status");
        let verdict = Verdict { allowed: true, exact: false };
        assert_eq!(answers.next(&trailers), Ok(Begins::Answer(15, verdict, Some(3))));
        let without = Begins::Answer(15, Verdict::default(), Some(3));
        assert_eq!(answers.next(&trailers), Ok(without), "no message, no decision");
        assert!(answers.next(&http_2::frame(http_2::GOAWAY, 0, 0, &[0; 8])).is_err());
    }

    #[test]
    fn a_body_says_who_decided() {
        let body = r#"{"allowed":true,"degraded":true}"#;
        let message = |status: u16, body: &str| {
            let length = body.len();
            format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
        };
        for (status, body, allowed, exact) in [
            (200, body, true, false),
            (200, r#"{"allowed":true}"#, true, true),
            (429, r#"{"allowed":false,"overloaded":true}"#, false, false),
            (429, r#"{"allowed":false}"#, false, true),
            (204, "", true, true),
            (503, "", false, false),
        ] {
            let bytes = message(status, body);
            let answer = Begins::Answer(bytes.len(), Verdict { allowed, exact }, None);
            assert_eq!(first(Listener::Http, &bytes), answer);
            assert_eq!(first(Listener::Http, &bytes[..bytes.len() - 1]), Begins::More);
        }
    }

    #[test]
    fn each_caller_and_each_stream_has_its_place_in_a_request() {
        for listener in [Listener::Resp, Listener::Http, Listener::Grpc] {
            let mut out = b"before".to_vec();
            Template::new(listener, "many").write(&mut out, 40_321, 3);
            assert!(has(&out, b"000000040321") && has(&out, b"many"), "{listener:?}");
            if listener == Listener::Grpc {
                let (headers, _, bytes) = http_2::frame_of(&out[6..]).unwrap();
                let (data, ..) = http_2::frame_of(&out[6 + bytes..]).unwrap();
                assert_eq!([headers.stream, data.stream], [7, 7]);
            }
        }
    }
}
