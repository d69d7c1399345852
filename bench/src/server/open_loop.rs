//! Requests at a given rate, evenly apart, however long answers take: the view of a caller whose requests do not wait
//! for each other. (h2load's `--rps` sends all due requests at once every ten milliseconds.)

use super::asking::{Answers, Asking, Begins, lost};
use super::generators::Load;
use super::no_op;
use crate::pauses::least_above;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Connections, taken in turn.
const CONNECTIONS: usize = super::generators::CONNECTIONS as usize;
/// The time that the last answers may take, and the next request until it is sent.
const PATIENCE: Duration = Duration::from_secs(5);

/// When requests are due.
#[derive(Clone, Copy)]
struct Schedule {
    begins: Instant,
    apart: Duration,
}

impl Schedule {
    fn due(&self, number: usize) -> Instant {
        self.begins + self.apart.mul_f64(number as f64)
    }

    /// When a connection's request of that place is due.
    fn due_of(&self, connection: usize, place: usize) -> Instant {
        self.due(connection + place * CONNECTIONS)
    }
}

/// Asks `per_s` times a second for `length`, on one thread that never rests, so that it wakes no thread and is not
/// woken. Latency counts from the time when a request was due.
///
/// # Errors
/// When a connection is lost, an answer is an error, or none comes.
pub fn run(at: SocketAddr, asking: Asking, per_s: f64, length: Duration) -> Result<Load, String> {
    let requests = (per_s * length.as_secs_f64()) as usize;
    let apart = Duration::from_secs_f64(1.0 / per_s.max(1.0));
    let mut poll = Poll::new().map_err(lost)?;
    let opened = |number| Line::open(at, asking, Token(number), &poll);
    let mut lines: Vec<_> = (0..CONNECTIONS).map(opened).collect::<Result<_, _>>()?;
    let schedule = Schedule { begins: Instant::now() + Duration::from_millis(50), apart };
    let mut events = Events::with_capacity(CONNECTIONS);
    let body = no_op::body();
    // Made before it is due.
    let request = |number: usize| asking.request(number, number / CONNECTIONS, &body);
    let (mut sent, mut next, mut us) = (0, request(0), Vec::with_capacity(requests));
    while us.len() < requests {
        if sent < requests && Instant::now() >= schedule.due(sent) {
            lines[sent % CONNECTIONS].send(&next)?;
            sent += 1;
            next = request(sent);
        }
        match poll.poll(&mut events, Some(Duration::ZERO)) {
            Err(error) if error.kind() == Interrupted => continue,
            polled => polled.map_err(lost)?,
        }
        for event in &events {
            let number = event.token().0;
            let answered = |place| us.push(micros_since(schedule.due_of(number, place)));
            lines[number].read(answered)?;
        }
        if Instant::now().saturating_duration_since(schedule.due(sent)) > PATIENCE {
            return Err(format!("{} of {sent} requests were not answered", sent - us.len()));
        }
    }
    us.sort_unstable();
    let wall = schedule.begins.elapsed().as_secs_f64();
    Ok(Load {
        decisions: us.len() as u64,
        per_s: us.len() as f64 / wall,
        p50_us: least_above(&us, 0.5).into(),
        p99_us: least_above(&us, 0.99).into(),
    })
}

/// A connection that does not block.
struct Line {
    stream: TcpStream,
    answers: Answers,
    /// The bytes that were read, and that are not answered by their meaning.
    read: Vec<u8>,
}

impl Line {
    fn open(at: SocketAddr, asking: Asking, token: Token, poll: &Poll) -> Result<Self, String> {
        let (stream, answers) = asking.open(at)?;
        stream.set_nonblocking(true).map_err(lost)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, token, Interest::READABLE).map_err(lost)?;
        Ok(Self { stream, answers, read: Vec::new() })
    }

    /// Sends a request; where there is no room for it, until there is.
    fn send(&mut self, mut request: &[u8]) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while !request.is_empty() && Instant::now() < until {
            match self.stream.write(request) {
                Ok(written) => request = &request[written..],
                Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {}
                Err(error) => return Err(lost(error)),
            }
        }
        if request.is_empty() { Ok(()) } else { Err("a request could not be sent".to_owned()) }
    }

    /// Reads all that is there, and tells of each request that is answered.
    fn read(&mut self, mut answered: impl FnMut(usize)) -> Result<(), String> {
        let mut bytes = [0; 16_384];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err("the connection was closed".to_owned()),
                Ok(length) => {
                    self.read.extend_from_slice(&bytes[..length]);
                    // The buffer was not filled, so no more bytes were there; the system reports the next bytes.
                    if length < bytes.len() {
                        return self.understand(&mut answered);
                    }
                }
                Err(error) if error.kind() == WouldBlock => return self.understand(&mut answered),
                Err(error) if error.kind() == Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
    }

    fn understand(&mut self, answered: &mut impl FnMut(usize)) -> Result<(), String> {
        let mut at = 0;
        loop {
            match (self.answers)(&self.read[at..])? {
                Begins::More => break,
                Begins::Other(length) => at += length,
                Begins::Answer(length, place) => {
                    at += length;
                    answered(place);
                }
            }
        }
        self.read.drain(..at);
        Ok(())
    }
}

fn micros_since(due: Instant) -> u32 {
    let passed = Instant::now().saturating_duration_since(due);
    u32::try_from(passed.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_its_own_requests() {
        let begins = Instant::now();
        let schedule = Schedule { begins, apart: Duration::from_millis(1) };
        let second = schedule.due_of(3, 1);
        assert_eq!(second, begins + Duration::from_millis(3 + CONNECTIONS as u64));
    }
}
