//! The load: a few connections, each with one pipeline on its way, all of one thread.

use super::cases::Case;
use super::subjects::Subject;
use crate::host::Stolen;
use crate::pauses::least_above;
use crate::process;
use crate::redis_server::RedisServer;
use crate::resp::Connection;
use crate::rounds::Sample;
use std::time::{Duration, Instant};
use tidegate::script::RedisReply;

/// Connections that ask at once.
const CONNECTIONS: usize = 8;
/// The share of the decisions of a sliding log in a batch that may be refused because the server was quicker
/// than just before.
const SURPRISES: f64 = 0.05;

/// Connections to one server.
pub struct Load<'a> {
    server: &'a RedisServer,
    connections: Vec<Connection>,
}

/// The result of a stretch of asking.
struct Stretch {
    asked: u64,
    expected: u64,
    wall: Duration,
    /// From sending a pipeline until all its replies were read, in nanoseconds; sorted.
    latencies: Vec<u32>,
}

/// Where a walk over the commands is.
struct Walk<'a> {
    commands: &'a [Vec<u8>],
    at: usize,
}

impl Walk<'_> {
    /// The bytes of the next few commands.
    fn next(&mut self, depth: usize, pipeline: &mut Vec<u8>) {
        pipeline.clear();
        for _ in 0..depth {
            pipeline.extend_from_slice(&self.commands[self.at]);
            self.at = (self.at + 1) % self.commands.len();
        }
    }
}

impl<'a> Load<'a> {
    /// Connects.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn on(server: &'a RedisServer) -> Result<Self, String> {
        let connections = (0..CONNECTIONS).map(|_| server.connect()).collect::<Result<_, _>>()?;
        Ok(Self { server, connections })
    }

    /// Decisions per second over a stretch.
    ///
    /// # Errors
    /// When the server answers with an error.
    pub fn rate(
        &mut self,
        case: &Case,
        subject: Subject,
        commands: &[Vec<u8>],
        length: Duration,
    ) -> Result<f64, String> {
        Ok(self.ask(case, subject, commands, length)?.per_s())
    }

    /// Measures a stretch; nothing where the server decided otherwise than the case expects, for then its
    /// time means nothing.
    ///
    /// # Errors
    /// When the server answers with an error.
    pub fn sample(
        &mut self,
        case: &Case,
        subject: Subject,
        commands: &[Vec<u8>],
        length: Duration,
    ) -> Result<Option<Sample>, String> {
        let (before, stolen_before) = (process::cpu(self.server.pid())?, Stolen::now()?);
        let stretch = self.ask(case, subject, commands, length)?;
        let cpu = process::cpu(self.server.pid())?.saturating_sub(before);
        let us = |share| f64::from(least_above(&stretch.latencies, share)) / 1e3;
        let sample = Sample {
            per_s: stretch.per_s(),
            cpu_us: cpu.as_secs_f64() * 1e6 / stretch.asked as f64,
            p50_us: us(0.5),
            p99_us: us(0.99),
            stolen: stolen_before.share_since()?,
        };
        let allowed = if subject.slides(case) { SURPRISES } else { 0.0 };
        Ok(Some(sample).filter(|_| stretch.surprises() <= allowed))
    }

    fn ask(
        &mut self,
        case: &Case,
        subject: Subject,
        commands: &[Vec<u8>],
        length: Duration,
    ) -> Result<Stretch, String> {
        let (mut walk, mut pipeline) = (Walk { commands, at: 0 }, Vec::new());
        let mut stretch =
            Stretch { asked: 0, expected: 0, wall: Duration::ZERO, latencies: Vec::new() };
        let begun = Instant::now();
        let mut sent = vec![begun; self.connections.len()];
        for connection in &mut self.connections {
            walk.next(case.depth, &mut pipeline);
            connection.send(&pipeline)?;
        }
        let mut goes_on = true;
        while goes_on {
            goes_on = begun.elapsed() < length;
            for (connection, sent) in self.connections.iter_mut().zip(&mut sent) {
                for _ in 0..case.depth {
                    stretch.count(subject.is_expected(case, &connection.reply()?));
                }
                let now = Instant::now();
                stretch.latencies.push(nanos(now - *sent));
                *sent = now;
                if goes_on {
                    walk.next(case.depth, &mut pipeline);
                    connection.send(&pipeline)?;
                }
            }
        }
        stretch.wall = begun.elapsed();
        stretch.latencies.sort_unstable();
        Ok(stretch)
    }

    /// Bytes that the server spends on a limiter that is as full as the case has it.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn bytes(&mut self, case: &Case, subject: Subject) -> Result<Option<u64>, String> {
        let window = Duration::from_secs(3600);
        let key = subject.key(case, window, 9_999);
        let mut connection = self.server.connect()?;
        let command = subject.command(case, window, &key, &mut connection)?;
        // The engine's command has been asked once, to be checked.
        let asked = u64::from(subject.is_ours());
        for _ in asked..case.fill() {
            connection.send(&command)?;
            connection.reply()?;
        }
        let answer = connection.ask(&[b"MEMORY", b"USAGE", key.as_bytes(), b"SAMPLES", b"0"])?;
        Ok(match answer {
            RedisReply::Int(bytes) => u64::try_from(bytes).ok(),
            _ => None,
        })
    }
}

impl Stretch {
    fn count(&mut self, expected: bool) {
        self.asked += 1;
        self.expected += u64::from(expected);
    }

    fn per_s(&self) -> f64 {
        self.asked as f64 / self.wall.as_secs_f64()
    }

    /// The share that was decided otherwise than the case expects.
    fn surprises(&self) -> f64 {
        1.0 - self.expected as f64 / self.asked as f64
    }
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}
