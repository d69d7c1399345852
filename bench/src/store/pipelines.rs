//! Commands in pipelines: a few connections to a redis-server, each with one pipeline on its way, all of one thread.

use super::commands::{Limit, Shape};
use crate::clock::process_cpu;
use crate::harness::{Asked, Sample, least_above};
use crate::host::Stolen;
use crate::redis_server::RedisServer;
use crate::resp::Connection;
use std::time::{Duration, Instant};
use tidegate::script::{Each, RedisReply};

/// A redis-server of its own, and the pipelines that it is sent in turn.
pub struct Pipelines {
    shape: Shape,
    pub server: RedisServer,
    connections: Vec<Connection>,
    /// Bytes, and the number of replies to them.
    all: Vec<(Vec<u8>, usize)>,
    at: usize,
}

/// The result of a stretch of asking.
pub struct Stretch {
    /// Decisions.
    pub asked: u64,
    pub replies: u64,
    /// Replies that admitted.
    pub admitted: u64,
    wall: Duration,
    /// From sending a pipeline until all its replies were read, in nanoseconds; sorted.
    latencies: Vec<u32>,
}

impl Pipelines {
    /// Starts a server, and connects.
    ///
    /// # Errors
    /// When redis-server is missing or does not start.
    pub fn begin(shape: Shape, connections: usize) -> Result<Self, String> {
        let server = RedisServer::start()?;
        let connections = (0..connections).map(|_| server.connect()).collect::<Result<_, _>>()?;
        Ok(Self { shape, server, connections, all: Vec::new(), at: 0 })
    }

    /// Makes the pipelines, each with `depth` commands.
    ///
    /// # Errors
    /// When there is no such rule, or the server is gone.
    pub fn fill(&mut self, limit: &Limit, keys: &[String], depth: usize) -> Result<(), String> {
        let commands = self.shape.commands(limit, keys, &mut self.server.connect()?)?;
        self.all = commands.chunks(depth).map(|part| (part.concat(), part.len())).collect();
        Ok(())
    }

    /// Asks for so long.
    ///
    /// # Errors
    /// When the server answers with an error.
    pub fn ask(&mut self, length: Duration) -> Result<Stretch, String> {
        let begun = Instant::now();
        let (mut replies, mut admitted) = (0, 0);
        let mut latencies = Vec::new();
        let mut sent = Vec::new();
        for connection in &mut self.connections {
            sent.push((send(connection, &self.all, &mut self.at)?, begun));
        }
        let mut goes_on = true;
        while goes_on {
            goes_on = begun.elapsed() < length;
            for (connection, (count, at)) in self.connections.iter_mut().zip(&mut sent) {
                for _ in 0..*count {
                    admitted += u64::from(self.shape.admits(&connection.reply()?));
                }
                replies += *count as u64;
                let now = Instant::now();
                latencies.push(u32::try_from((now - *at).as_nanos()).unwrap_or(u32::MAX));
                *at = now;
                if goes_on {
                    *count = send(connection, &self.all, &mut self.at)?;
                }
            }
        }
        let wall = begun.elapsed();
        latencies.sort_unstable();
        let asked = replies * if self.shape == Shape::Each { Each::MOST as u64 } else { 1 };
        Ok(Stretch { asked, replies, admitted, wall, latencies })
    }

    /// Bytes that the server spends on a limiter with so many units in it.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn bytes(&mut self, limit: &Limit, key: &str, units: u64) -> Result<Option<u64>, String> {
        let mut connection = self.server.connect()?;
        let commands = self.shape.commands(limit, &[key.to_owned()], &mut connection)?;
        // The engine's command has been asked once, to be checked.
        let asked = u64::from(matches!(self.shape, Shape::Engine(_) | Shape::Verdict));
        for command in (asked..units).flat_map(|_| &commands) {
            connection.send(command)?;
            connection.reply()?;
        }
        let answer = connection.ask(&[b"MEMORY", b"USAGE", key.as_bytes(), b"SAMPLES", b"0"])?;
        Ok(match answer {
            RedisReply::Int(bytes) => u64::try_from(bytes).ok(),
            _ => None,
        })
    }
}

/// Sends the next pipeline; returns the number of its replies.
fn send(
    connection: &mut Connection,
    all: &[(Vec<u8>, usize)],
    at: &mut usize,
) -> Result<usize, String> {
    let (bytes, replies) = all.get(*at).ok_or("there is no pipeline")?;
    connection.send(bytes)?;
    *at = (*at + 1) % all.len();
    Ok(*replies)
}

impl Stretch {
    /// Decisions per second.
    pub fn per_s(&self) -> f64 {
        self.asked as f64 / self.wall.as_secs_f64()
    }

    /// So much of a time for each decision, in microseconds.
    fn each_us(&self, time_us: f64) -> f64 {
        time_us / self.asked.max(1) as f64
    }

    fn latency_us(&self, share: f64) -> f64 {
        least_above(&self.latencies, share) / 1e3
    }
}

/// Asks for a stretch, and returns it with its values: of a script that is compared with its floors, and of a way to ask
/// a store that is compared with others.
///
/// # Errors
/// When the server answers with an error.
pub fn measured(pipelines: &mut Pipelines, length: Duration) -> Result<(Stretch, Sample), String> {
    let before = pipelines.server.did()?;
    let own_before = process_cpu();
    let stolen_before = Stolen::now()?;
    let stretch = pipelines.ask(length)?;
    let stolen = stolen_before.percent_since()?;
    let own = process_cpu().saturating_sub(own_before);
    let did = pipelines.server.did()?.since(before);
    let cpu_us = stretch.each_us(did.cpu_us as f64);
    let sample = vec![
        ("per_s", stretch.per_s()),
        ("cpu_us", cpu_us),
        ("redis_cpu_us", cpu_us),
        ("client_cpu_us", stretch.each_us(own.as_secs_f64() * 1e6)),
        ("round_trips", stretch.replies as f64 / stretch.asked as f64),
        ("network_bytes", did.network_bytes as f64 / stretch.asked as f64),
        ("p50_us", stretch.latency_us(0.5)),
        ("p99_us", stretch.latency_us(0.99)),
        ("stolen", stolen),
    ];
    Ok((stretch, sample))
}

/// All must be admitted.
impl Asked for Pipelines {
    fn sample(&mut self, length: Duration) -> Result<Sample, String> {
        let (stretch, sample) = measured(self, length)?;
        let refused = stretch.replies - stretch.admitted;
        if refused > 0 {
            return Err(format!("{refused} of {} replies admit nothing", stretch.replies));
        }
        Ok(sample)
    }
}
