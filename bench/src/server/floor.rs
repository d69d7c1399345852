//! The minimum that any server does for requests that come one by one: it waits for them, and each is a `recv` and a
//! `send`. This time is the system's, and a server that also decides cannot take less.

use super::asking::{Listener, Template, lost, open};
use super::cases::Subject;
use clap::{Args, ValueEnum};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind::WouldBlock, Read, Write};
use std::net::SocketAddr;

/// An answer as the server gives it to a check over HTTP, always the same.
const CHECK: &str = concat!(
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-store\r\n",
    "x-ratelimit-limit: 10000000\r\nx-ratelimit-remaining: 9999999\r\nx-ratelimit-reset: 1\r\n",
    "ratelimit-policy: \"per-user\";q=10000000;w=3600\r\nratelimit: \"per-user\";r=9999999;t=1\r\n",
    "content-length: 220\r\ndate: Sun, 22 Nov 2026 13:03:29 GMT\r\n\r\n",
    "{\"at_us\":1795352609610112,\"allowed\":true,\"rule\":\"per-user\",\"limit\":10000000,\"remaining\":9999999,",
    "\"retry_after_us\":0,\"reset_after_us\":360,\"delay_us\":0,\"unlimited\":false,\"degraded\":false,",
    "\"overflow\":false,\"overloaded\":false}",
);
/// An answer as the server gives it to `CL.THROTTLE`.
const THROTTLE: &str = "*5\r\n:0\r\n:1000001\r\n:1000000\r\n:-1\r\n:1\r\n";
/// The first bytes of redis-benchmark, which goes on without an answer to them.
const CONFIG: &[u8] = b"*3\r\n$6\r\nCONFIG\r\n";
/// The largest difference in bytes between an answer of the server and these: a few digits.
const DIGITS: usize = 8;
const LISTENER: Token = Token(usize::MAX);

/// Whose answer it gives, the same each time.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Imitated {
    /// That to `POST /v1/check`.
    Check,
    /// That to `CL.THROTTLE`, without pipelining.
    Throttle,
}

impl Imitated {
    const fn answer(self) -> &'static str {
        match self {
            Self::Check => CHECK,
            Self::Throttle => THROTTLE,
        }
    }

    /// The text of an answer that lets a request pass.
    const fn sign(self) -> &'static str {
        match self {
            Self::Check => "\"rule\":\"per-user\"",
            Self::Throttle => "*5\r\n:0\r\n",
        }
    }

    /// Asks the server once, to see that it decides, and that its answers are as long as the floor's answers.
    ///
    /// # Errors
    /// When they are not, or it does not.
    pub fn agrees_with(self, at: SocketAddr) -> Result<(), String> {
        let (listener, template) = match self {
            Self::Check => (Listener::Http, Template::new(Listener::Http, "bench")),
            Self::Throttle => (Listener::Resp, Template::command(Subject::Tidegate.command())),
        };
        let mut request = Vec::new();
        template.write(&mut request, 0, 0);
        let mut stream = open(listener, at)?;
        stream.write_all(&request).map_err(lost)?;
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).map_err(lost)?;
        let answer = String::from_utf8_lossy(&bytes[..read]);
        if !answer.contains(self.sign()) {
            return Err(format!("expected a request that passes, and came {answer:?}"));
        }
        let floor = self.answer().len();
        if read.abs_diff(floor) > DIGITS {
            return Err(format!("an answer has {read} bytes, and the floor's answer has {floor}"));
        }
        Ok(())
    }
}

/// Where it listens.
#[derive(Args)]
pub struct Floor {
    /// Whose answer it gives.
    imitated: Imitated,
    /// IP:PORT.
    at: SocketAddr,
}

/// Answers until it is ended, on one thread: bytes that come at once are taken for a request.
///
/// # Errors
/// When the address cannot be had, or the system fails it.
pub fn run(wanted: &Floor) -> Result<(), String> {
    serve(wanted.at, wanted.imitated).map_err(|error| format!("cannot serve: {error}"))
}

fn serve(at: SocketAddr, imitated: Imitated) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(at)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut open: Vec<Option<TcpStream>> = Vec::new();
    let mut events = Events::with_capacity(1024);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            match event.token() {
                LISTENER => accept(&listener, &poll, &mut open)?,
                Token(number) => answer(&mut open[number], imitated),
            }
        }
    }
}

/// All that want to connect.
fn accept(
    listener: &TcpListener,
    poll: &Poll,
    open: &mut Vec<Option<TcpStream>>,
) -> io::Result<()> {
    loop {
        match listener.accept() {
            Ok((mut stream, _)) => {
                let token = Token(open.len());
                poll.registry().register(&mut stream, token, Interest::READABLE)?;
                stream.set_nodelay(true)?;
                open.push(Some(stream));
            }
            Err(error) if error.kind() == WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Reads once, as long as less comes than there is room for, and answers; a connection that ends is gone.
fn answer(place: &mut Option<TcpStream>, imitated: Imitated) {
    let Some(stream) = place else { return };
    let mut bytes = [0; 4096];
    let answered = match stream.read(&mut bytes) {
        Ok(read @ 1..) if bytes[..read].starts_with(CONFIG) => stream.write_all(b"-ERR\r\n"),
        Ok(1..) => stream.write_all(imitated.answer().as_bytes()),
        Err(error) if error.kind() == WouldBlock => Ok(()),
        Ok(0) | Err(_) => Err(io::ErrorKind::ConnectionReset.into()),
    };
    if answered.is_err() {
        *place = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_one_of_http_of_the_length_it_says() {
        let (head, body) = CHECK.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }

    #[test]
    fn the_answer_is_one_of_five_integers_that_lets_pass() {
        let lines: Vec<_> = THROTTLE.split_terminator("\r\n").collect();
        let integers = lines.iter().filter_map(|line| line.strip_prefix(':')?.parse::<i64>().ok());
        assert_eq!((lines[0], lines.len(), integers.count()), ("*5", 6, 5));
        assert!(THROTTLE.starts_with(Imitated::Throttle.sign()));
    }
}
