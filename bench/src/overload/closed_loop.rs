//! Connections with a fixed number of requests on their way at all times, on one thread.

use super::PATIENCE;
use super::asking::{Answers, Begins, Template, Verdict, open};
use super::cases::Case;
use crate::server::asking::lost;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

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
}

/// Asks for `length` as fast as answers come.
///
/// # Errors
/// When a connection is lost, or an answer is not understood.
pub fn run(case: &Case, at: &[SocketAddr], length: Duration) -> Result<Answered, String> {
    let mut poll = Poll::new().map_err(lost)?;
    let load = case.load;
    let opened = |number: usize| Line::open(case, at, number, &poll);
    let mut lines: Vec<_> = (0..load.connections).map(opened).collect::<Result<_, _>>()?;
    let mut asker = Asker {
        template: Template::new(load.listener, case.scenario.domain()),
        callers: case.scenario.callers(),
        random: 88_172_645_463_325_252,
        ends: Instant::now() + length,
        answered: Answered {
            admitted: vec![0; case.scenario.callers()],
            exact_by_server: vec![0; at.len()],
            ..Answered::default()
        },
    };
    for line in &mut lines {
        (0..load.depth).for_each(|_| asker.ask(line, Instant::now()));
        line.flush()?;
    }
    let mut events = Events::with_capacity(1_024);
    loop {
        match poll.poll(&mut events, Some(Duration::from_millis(10))) {
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
struct Asker {
    template: Template,
    callers: usize,
    random: u64,
    ends: Instant,
    answered: Answered,
}

impl Asker {
    fn ask(&mut self, line: &mut Line, now: Instant) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let caller = (self.random % self.callers as u64) as usize;
        self.template.write(&mut line.out, caller, line.asked);
        line.sent.push_back(Sent { at: now, caller, place: line.asked });
        line.asked += 1;
    }

    fn hear(&mut self, verdict: Verdict, sent: &Sent, server: usize, now: Instant) {
        self.answered.admitted[sent.caller] += u32::from(verdict.allowed);
        let us = now.saturating_duration_since(sent.at).as_micros();
        let us = u32::try_from(us).unwrap_or(u32::MAX);
        if verdict.exact {
            self.answered.exact_us.push(us);
            self.answered.exact_by_server[server] += 1;
        } else {
            self.answered.other_us.push(us);
        }
    }
}

/// A request that is on its way.
struct Sent {
    at: Instant,
    caller: usize,
    place: usize,
}

/// A connection.
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
    fn open(case: &Case, at: &[SocketAddr], number: usize, poll: &Poll) -> Result<Self, String> {
        let server = number % at.len();
        let stream = open(case.load.listener, at[server])?;
        stream.set_nonblocking(true).map_err(lost)?;
        let mut stream = TcpStream::from_std(stream);
        let interests = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(number), interests).map_err(lost)?;
        let answers = Answers::new(case.load.listener);
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
                    if now < asker.ends {
                        asker.ask(self, now);
                    }
                }
            }
        }
        self.read.drain(..at);
        Ok(())
    }
}
