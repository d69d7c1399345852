//! Request encoders and reply parsers for each listener. They are cheap, because client and server share the cores.

use super::cases::Listener;
use crate::resp;
use crate::server::asking::{http_2, lost};
use crate::server::no_op;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use std::net::{SocketAddr, TcpStream};

/// Stands for the number of a caller.
const CALLER: &str = "u000000";

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
    /// One descriptor of one entry, the caller.
    pub fn new(listener: Listener, domain: &str) -> Self {
        let mut streams = Vec::new();
        let bytes = match listener {
            Listener::Resp => {
                resp::command(&[b"TG.CHECK", domain.as_bytes(), b"user", CALLER.as_bytes()])
            }
            Listener::Http => {
                let body = format!(r#"{{"domain":"{domain}","descriptor":{{"user":"{CALLER}"}}}}"#);
                let length = body.len();
                let head =
                    "POST /v1/check HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json";
                format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
            }
            Listener::Grpc => {
                let call = http_2::call(0, &no_op::message(&call_of(domain)));
                streams = http_2::streams(&call);
                call
            }
        };
        let caller = bytes.windows(CALLER.len()).position(|part| part == CALLER.as_bytes());
        Self { bytes, caller: caller.map_or(0, |at| at + 1), streams }
    }

    /// Writes the request of a caller, the `place`th of its connection.
    pub fn write(&self, out: &mut Vec<u8>, caller: usize, place: usize) {
        let begins = out.len();
        out.extend_from_slice(&self.bytes);
        let (mut rest, digits) = (caller, CALLER.len() - 1);
        for digit in out[begins + self.caller..][..digits].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        for at in &self.streams {
            let stream = u32::try_from(2 * place + 1).unwrap_or(u32::MAX);
            out[begins + at..][..4].copy_from_slice(&stream.to_be_bytes());
        }
    }
}

fn call_of(domain: &str) -> RateLimitRequest {
    let entry = Entry { key: "user".to_owned(), value: CALLER.to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    RateLimitRequest { domain: domain.to_owned(), descriptors: vec![descriptor], hits_addend: 0 }
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
    stream.set_read_timeout(Some(super::PATIENCE)).map_err(lost)?;
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

/// A map of RESP2: names, each before its value. An error is no decision.
fn resp_answer(read: &[u8]) -> Result<Begins, String> {
    let mut words = Words { read, at: 0 };
    let mut verdict = Verdict { allowed: false, exact: true };
    let Some(first) = words.line() else { return Ok(Begins::More) };
    match first.split_first() {
        Some((b'-', _)) => return Ok(Begins::Answer(words.at, Verdict::default(), None)),
        Some((b'*', count)) => {
            for _ in 0..number(count)? / 2 {
                let (Some(name), Some(value)) = (words.word()?, words.word()?) else {
                    return Ok(Begins::More);
                };
                match name {
                    b"allowed" => verdict.allowed = value == b"1",
                    b"degraded" | b"overloaded" if value == b"1" => verdict.exact = false,
                    _ => {}
                }
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
        Some(200) => true,
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
            assert!(has(&out, b"u040321") && has(&out, b"many"), "{listener:?}");
            if listener == Listener::Grpc {
                let (headers, _, bytes) = http_2::frame_of(&out[6..]).unwrap();
                let (data, ..) = http_2::frame_of(&out[6 + bytes..]).unwrap();
                assert_eq!([headers.stream, data.stream], [7, 7]);
            }
        }
    }
}
