//! Load of our own, from one thread: connections with a fixed number of requests on their way at all times, or requests
//! at a given rate, evenly apart, however long answers take.
//!
//! The latter is the view of a caller whose requests do not wait for each other. (h2load's `--rps` sends all due requests
//! at once every ten milliseconds.)

use super::asking::{Answers, Begins, Listener, PATIENCE, Template, Verdict, lost, open};
use crate::harness::micros;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The time between two requests beyond which the thread rests.
const RESTS: Duration = Duration::from_millis(5);

/// The requests, and their callers.
pub struct Asks {
    pub listener: Listener,
    pub template: Template,
    pub callers: usize,
    /// Connections, of all servers together.
    pub connections: usize,
    pub pace: Pace,
}

/// When a request is sent.
#[derive(Clone, Copy)]
pub enum Pace {
    /// As an earlier one is answered: so many are on their way on each connection. Latency counts from its writing.
    Closed { depth: usize },
    /// So many times a second, on one connection after the other. Latency counts from when it was due; at a low rate, at
    /// which the thread rests between requests, from its writing.
    Open { per_s: f64 },
}

/// The answers that the callers got.
#[derive(Debug, Default)]
pub struct Answered {
    /// Units admitted, for each caller.
    pub admitted: Vec<u32>,
    /// Latencies of decisions of the store, in microseconds.
    pub exact_us: Vec<u32>,
    /// Latencies of decisions without the store.
    pub other_us: Vec<u32>,
    /// Decisions of the store, by server.
    pub exact_by_server: Vec<u64>,
    /// Requests that were not answered in the end.
    pub unanswered: usize,
    /// When the last request was sent.
    pub stopped: Option<Instant>,
    /// When the last decision without the store came.
    pub last_other: Option<Instant>,
}

/// Asks for `length`, and waits for the last answers.
///
/// # Errors
/// When a connection is lost, or an answer is not understood.
pub fn run(asks: &Asks, at: &[SocketAddr], length: Duration) -> Result<Answered, String> {
    let mut poll = Poll::new().map_err(lost)?;
    let opened = |number: usize| Line::open(asks.listener, at, number, &poll);
    let mut lines: Vec<_> = (0..asks.connections).map(opened).collect::<Result<_, _>>()?;
    let begins = Instant::now();
    let mut asker = Asker {
        asks,
        random: 88_172_645_463_325_252,
        ends: begins + length,
        answered: Answered {
            admitted: vec![0; asks.callers],
            exact_by_server: vec![0; at.len()],
            ..Answered::default()
        },
    };
    let mut events = Events::with_capacity(1_024);
    let mut sent = 0;
    if let Pace::Closed { depth } = asks.pace {
        for line in &mut lines {
            (0..depth).for_each(|_| asker.ask(line, begins));
            line.flush()?;
        }
    }
    loop {
        let mut patience = Duration::from_millis(10);
        if let Pace::Open { per_s } = asks.pace {
            let apart = Duration::from_secs_f64(1.0 / per_s.max(1.0));
            let due = begins + apart.mul_f64(f64::from(sent));
            let now = Instant::now();
            if due < asker.ends {
                // At a high rate the thread never rests, so that it is not woken late.
                patience =
                    if apart > RESTS { due.saturating_duration_since(now) } else { Duration::ZERO };
            }
            if due < asker.ends && now >= due {
                let line = &mut lines[sent as usize % asks.connections];
                asker.ask(line, if apart > RESTS { now } else { due });
                line.flush()?;
                sent += 1;
            }
        }
        match poll.poll(&mut events, Some(patience)) {
            Err(error) if error.kind() == Interrupted => continue,
            polled => polled.map_err(lost)?,
        }
        for event in &events {
            let line = &mut lines[event.token().0];
            line.read_all(&mut asker)?;
            line.flush()?;
        }
        let now = Instant::now();
        if now >= asker.ends {
            asker.answered.stopped.get_or_insert(now);
            let open: usize = lines.iter().map(|line| line.sent.len()).sum();
            if open == 0 || now > asker.ends + PATIENCE {
                asker.answered.unanswered = open;
                return Ok(asker.answered);
            }
        }
    }
}

/// The callers.
struct Asker<'a> {
    asks: &'a Asks,
    random: u64,
    ends: Instant,
    answered: Answered,
}

impl Asker<'_> {
    fn ask(&mut self, line: &mut Line, at: Instant) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let caller = (self.random % self.asks.callers as u64) as usize;
        self.asks.template.write(&mut line.out, caller, line.asked);
        line.sent.push_back(Sent { at, caller, place: line.asked });
        line.asked += 1;
    }

    fn hear(&mut self, verdict: Verdict, sent: &Sent, server: usize, now: Instant) {
        self.answered.admitted[sent.caller] += u32::from(verdict.allowed);
        let us = micros(now.saturating_duration_since(sent.at));
        if verdict.exact {
            self.answered.exact_us.push(us);
            self.answered.exact_by_server[server] += 1;
        } else {
            self.answered.other_us.push(us);
            self.answered.last_other = Some(now);
        }
    }

    /// Returns whether an answer makes its connection ask again.
    fn asks_again(&self, now: Instant) -> bool {
        matches!(self.asks.pace, Pace::Closed { .. }) && now < self.ends
    }
}

/// A request that is on its way.
struct Sent {
    at: Instant,
    caller: usize,
    place: usize,
}

/// A connection that does not block.
struct Line {
    stream: TcpStream,
    server: usize,
    answers: Answers,
    asked: usize,
    sent: VecDeque<Sent>,
    read: Vec<u8>,
    out: Vec<u8>,
}

impl Line {
    fn open(
        listener: Listener,
        at: &[SocketAddr],
        number: usize,
        poll: &Poll,
    ) -> Result<Self, String> {
        let server = number % at.len();
        let stream = open(listener, at[server])?;
        stream.set_nonblocking(true).map_err(lost)?;
        let mut stream = TcpStream::from_std(stream);
        let interests = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(number), interests).map_err(lost)?;
        let answers = Answers::new(listener);
        let (sent, read, out) = (VecDeque::new(), Vec::new(), Vec::new());
        Ok(Self { stream, server, answers, asked: 0, sent, read, out })
    }

    /// Writes as many bytes as it can; the rest is written when there is room again.
    fn flush(&mut self) -> Result<(), String> {
        let mut written = 0;
        while written < self.out.len() {
            match self.stream.write(&self.out[written..]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == WouldBlock => break,
                Err(error) if error.kind() == Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
        self.out.drain(..written);
        Ok(())
    }

    /// Reads all that is there, and asks again for each answer.
    fn read_all(&mut self, asker: &mut Asker) -> Result<(), String> {
        let mut bytes = [0; 65_536];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err("the server closed a connection".to_owned()),
                Ok(length) => {
                    self.read.extend_from_slice(&bytes[..length]);
                    self.understand(asker)?;
                    if length < bytes.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == WouldBlock => return Ok(()),
                Err(error) if error.kind() == Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
    }

    fn understand(&mut self, asker: &mut Asker) -> Result<(), String> {
        let (mut at, now) = (0, Instant::now());
        loop {
            match self.answers.next(&self.read[at..])? {
                Begins::More => break,
                Begins::Other(bytes) => at += bytes,
                Begins::Answer(bytes, verdict, place) => {
                    at += bytes;
                    let of = |sent: &Sent| place.is_none_or(|place| sent.place == place);
                    let of = self.sent.iter().position(of);
                    let sent = of.and_then(|of| self.sent.remove(of));
                    let sent = sent.ok_or("an answer to no request")?;
                    asker.hear(verdict, &sent, self.server, now);
                    if asker.asks_again(now) {
                        asker.ask(self, now);
                    }
                }
            }
        }
        self.read.drain(..at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread;

    /// A server that says yes to every line that ends a command, and counts them.
    fn yes() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    for line in lines.map_while(Result::ok) {
                        if line.starts_with("user:") {
                            stream.write_all(b":1\r\n").unwrap();
                        }
                    }
                });
            }
        });
        at
    }

    #[test]
    fn either_pace_is_kept_and_every_request_is_answered() {
        let at = yes();
        for (pace, least) in [(Pace::Open { per_s: 500.0 }, 50), (Pace::Closed { depth: 2 }, 4)] {
            let template = Template::command(&["INCR", "user:__rand_int__"]);
            let (listener, connections) = (Listener::Resp, 2);
            let asks = Asks { listener, template, callers: 10, connections, pace };
            let answered = run(&asks, &[at], Duration::from_millis(100)).unwrap();
            let all = answered.exact_us.len();
            assert!(all >= least && answered.unanswered == 0, "{all}");
            assert_eq!(answered.admitted.iter().sum::<u32>() as usize, all);
            assert!(matches!(pace, Pace::Closed { .. }) || all == 50, "{all} at 500 a second");
        }
    }
}
