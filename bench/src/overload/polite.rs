//! Callers who ask little next to those who ask much, each on a connection and for a key of its own.

use super::cases::OWN_LIMIT;
use crate::harness::micros;
use crate::server::asking::{Answers, Begins, Listener, Template, Verdict, lost, open};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The number of callers; each server has at least one.
const CALLERS: usize = 4;
/// The time between two questions of a caller while there is load.
const APART: Duration = Duration::from_millis(100);
/// The time between two questions after the load has stopped, and the time for which they go on.
const APART_AFTER: Duration = Duration::from_millis(2);
const AFTER: Duration = Duration::from_secs(1);

/// The answers that they got.
#[derive(Debug, Default)]
pub struct Answered {
    pub asked: u64,
    /// The number of questions that the store decided.
    pub exact: u64,
    /// Units admitted over the limits.
    pub over: u64,
    /// Latencies of all, in microseconds.
    pub us: Vec<u32>,
    /// The time from the end of the load to the last answer that the store did not decide.
    pub until_exact: Duration,
}

/// Those who ask until some time after the load.
pub struct Polite {
    stopped: Arc<OnceLock<Instant>>,
    threads: Vec<JoinHandle<Result<Answered, String>>>,
}

impl Polite {
    /// They begin.
    ///
    /// # Errors
    /// If no server answers.
    pub fn begin(listener: Listener, at: &[SocketAddr]) -> Result<Self, String> {
        let stopped = Arc::new(OnceLock::new());
        let callers = (0..CALLERS).zip(at.iter().cycle()).map(|(caller, at)| {
            let caller = Caller::open(listener, *at, caller)?;
            let stopped = Arc::clone(&stopped);
            Ok(thread::spawn(move || caller.ask_until(&stopped)))
        });
        let threads = callers.collect::<Result<_, String>>()?;
        Ok(Self { stopped, threads })
    }

    /// Takes the time at which the load stopped. Returns the answers before and after it, once the callers have ended.
    ///
    /// # Errors
    /// When a connection was lost, or an answer was not understood.
    pub fn end(self, stopped: Instant) -> Result<Answered, String> {
        let _ = self.stopped.set(stopped);
        let mut all = Answered::default();
        for one in self.threads {
            let one = one.join().map_err(|_| "a polite caller failed".to_owned())??;
            all.asked += one.asked;
            all.exact += one.exact;
            all.over += one.over;
            all.us.extend(one.us);
            all.until_exact = all.until_exact.max(one.until_exact);
        }
        Ok(all)
    }
}

/// One of them.
struct Caller {
    stream: TcpStream,
    answers: Answers,
    template: Template,
    number: usize,
    read: Vec<u8>,
    asked: usize,
}

impl Caller {
    fn open(listener: Listener, at: SocketAddr, number: usize) -> Result<Self, String> {
        let stream = open(listener, at)?;
        let template = Template::new(listener, "polite");
        let answers = Answers::new(listener);
        Ok(Self { stream, answers, template, number, read: Vec::new(), asked: 0 })
    }

    fn ask_until(mut self, stopped: &OnceLock<Instant>) -> Result<Answered, String> {
        let (mut answer, mut admitted) = (Answered::default(), 0);
        loop {
            let begun = Instant::now();
            let before = stopped.get().copied();
            let Verdict { allowed, exact } = self.ask()?;
            admitted += u64::from(allowed);
            match before {
                // A request that was sent before the load had stopped counts as under load.
                None => {
                    answer.asked += 1;
                    answer.exact += u64::from(exact);
                    answer.us.push(micros(begun.elapsed()));
                    thread::sleep(APART);
                }
                Some(stopped) if stopped.elapsed() > AFTER => break,
                Some(stopped) => {
                    if !exact {
                        answer.until_exact = stopped.elapsed();
                    }
                    thread::sleep(APART_AFTER);
                }
            }
        }
        answer.over = u64::saturating_sub(admitted, OWN_LIMIT.into());
        Ok(answer)
    }

    fn ask(&mut self) -> Result<Verdict, String> {
        let mut out = Vec::new();
        self.template.write(&mut out, self.number, self.asked);
        self.asked += 1;
        self.stream.write_all(&out).map_err(lost)?;
        loop {
            match self.answers.next(&self.read)? {
                Begins::More => {
                    let mut bytes = [0; 4_096];
                    let length = self.stream.read(&mut bytes).map_err(lost)?;
                    if length == 0 {
                        return Err("the server closed a connection".to_owned());
                    }
                    self.read.extend_from_slice(&bytes[..length]);
                }
                Begins::Other(bytes) => drop(self.read.drain(..bytes)),
                Begins::Answer(bytes, verdict, _) => {
                    self.read.drain(..bytes);
                    return Ok(verdict);
                }
            }
        }
    }
}
