//! Request encoders and reply parsers of our own load generator, for each listener. They are cheap, because the
//! generator shares the cores with the server.

pub mod http_2;

use crate::resp;
use std::net::{SocketAddr, TcpStream};

/// The number of keys that are asked for.
const KEYS: usize = 100_000;

/// A question, and the listener that it is for.
#[derive(Clone, Copy, Debug)]
pub enum Asking {
    /// A command of RESP, in which `__rand_int__` is a number.
    Resp(&'static [&'static str]),
    /// Checks over HTTP/1.1.
    Http,
    /// Calls of Envoy's service over HTTP/2.
    Grpc,
}

/// The first bytes that were read of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// Something that is not all there yet.
    More,
    /// A number of bytes that end no answer.
    Other(usize),
    /// A number of bytes, and the place of the request that they answer among the requests of its connection, from 0.
    Answer(usize, usize),
}

/// Tells what bytes begin with; to be asked again with the rest of them.
pub type Answers = Box<dyn FnMut(&[u8]) -> Result<Begins, String>>;

impl Asking {
    /// A connection, and what tells its answers.
    ///
    /// # Errors
    /// If no server answers, or not as the listener does.
    pub fn open(self, at: SocketAddr) -> Result<(TcpStream, Answers), String> {
        let failed = |error: std::io::Error| format!("cannot connect to {at}: {error}");
        let mut stream = TcpStream::connect(at).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let mut answered = 0..;
        let mut in_turn = move |bytes| match bytes {
            Some(bytes) => Begins::Answer(bytes, answered.next().unwrap_or_default()),
            None => Begins::More,
        };
        let answers: Answers = match self {
            Self::Resp(_) => Box::new(move |read| resp_answer(read).map(&mut in_turn)),
            Self::Http => Box::new(move |read| http_answer(read).map(&mut in_turn)),
            Self::Grpc => {
                http_2::begin(&mut stream)?;
                let mut messages = 0;
                Box::new(move |read| http_2::answer(read, &mut messages))
            }
        };
        Ok((stream, answers))
    }

    /// The bytes of a request, the `place`th of its connection; the keys are spread, and the same in
    /// every run. A call has this body.
    pub fn request(self, number: usize, place: usize, body: &[u8]) -> Vec<u8> {
        let key = number.wrapping_mul(7_919) % KEYS;
        match self {
            Self::Resp(words) => {
                let key = format!("{key:012}");
                let words: Vec<_> =
                    words.iter().map(|word| word.replace("__rand_int__", &key)).collect();
                resp::command(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
            }
            Self::Http => {
                let body = format!(r#"{{"domain":"bench","descriptor":{{"user":"u{key:06}"}}}}"#);
                let length = body.len();
                format!(
                    "POST /v1/check HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n\
                     content-length: {length}\r\n\r\n{body}"
                )
                .into_bytes()
            }
            Self::Grpc => http_2::call(place, body),
        }
    }
}

/// The bytes of one answer of RESP: a number, a word, or several numbers that do not begin with the number of a
/// refusal.
fn resp_answer(read: &[u8]) -> Result<Option<usize>, String> {
    let mut lines =
        read.split_inclusive(|byte| *byte == b'\n').take_while(|line| line.ends_with(b"\n"));
    let Some(first) = lines.next() else { return Ok(None) };
    let text = || String::from_utf8_lossy(first.trim_ascii_end()).into_owned();
    let more = match first[0] {
        b':' | b'+' => 0,
        b'*' => text()[1..].parse().map_err(|_| format!("an answer of {:?}", text()))?,
        _ => return Err(format!("the server answered {:?}", text())),
    };
    let mut bytes = first.len();
    for place in 0..more {
        match lines.next() {
            Some(b":1\r\n") if place == 0 => return Err("a request was refused".to_owned()),
            Some(line @ [b':', ..]) => bytes += line.len(),
            Some(_) => return Err(format!("an answer of {:?}", text())),
            None => return Ok(None),
        }
    }
    Ok(Some(bytes))
}

/// The bytes of one answer of HTTP/1.1, which must be one of success.
fn http_answer(read: &[u8]) -> Result<Option<usize>, String> {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut answer = httparse::Response::new(&mut fields);
    let parsed = answer.parse(read).map_err(|error| format!("a check was answered {error}"))?;
    let httparse::Status::Complete(head) = parsed else { return Ok(None) };
    let status = answer.code.unwrap_or_default();
    if !(200..300).contains(&status) {
        return Err(format!("a check was answered {status}"));
    }
    let is_length = |field: &&httparse::Header| field.name.eq_ignore_ascii_case("content-length");
    let length = match answer.headers.iter().find(is_length) {
        Some(field) => {
            let length = std::str::from_utf8(field.value).ok().and_then(|text| text.parse().ok());
            length.ok_or_else(|| format!("a length of {:?}", field.value))?
        }
        None => 0,
    };
    let bytes = head + length;
    Ok((bytes <= read.len()).then_some(bytes))
}

/// A connection cannot be used.
pub fn lost(error: std::io::Error) -> String {
    format!("the connection was lost: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_asks_for_a_key_of_its_own() {
        let first = Asking::Resp(&["INCR", "key:__rand_int__"]).request(1, 0, b"");
        assert_eq!(first, resp::command(&[b"INCR", b"key:000000007919"]));
        let check = String::from_utf8(Asking::Http.request(2, 0, b"")).unwrap();
        assert!(check.contains("content-length: 50\r\n") && check.contains("u015838"), "{check}");
    }

    #[test]
    fn an_answer_of_http_ends_with_its_body() {
        let empty = b"HTTP/1.1 204 No Content\r\n\r\n";
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(http_answer(&[&empty[..], whole].concat()), Ok(Some(empty.len())));
        assert_eq!(http_answer(whole), Ok(Some(whole.len())));
        assert_eq!(http_answer(&whole[..whole.len() - 1]), Ok(None));
        assert_eq!(http_answer(b"HTTP/1.1 200"), Ok(None));
        assert!(http_answer(b"HTTP/1.1 500 No\r\n\r\n").unwrap_err().contains("500"));
    }

    #[test]
    fn an_answer_of_resp_ends_with_its_last_line() {
        assert_eq!(resp_answer(b":12\r\n:1"), Ok(Some(5)));
        let five = b"*2\r\n:0\r\n:-1\r\n";
        assert_eq!(resp_answer(five), Ok(Some(five.len())));
        assert_eq!(resp_answer(&five[..five.len() - 1]), Ok(None));
        assert_eq!(resp_answer(b""), Ok(None));
        assert!(resp_answer(b"*2\r\n:1\r\n:0\r\n").is_err(), "refused");
        assert!(resp_answer(b"*1\r\n$2\r\nab\r\n").is_err());
        assert!(resp_answer(b"-ERR no\r\n").unwrap_err().contains("ERR no"));
    }
}
