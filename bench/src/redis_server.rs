//! A redis-server of one's own: on a free port, nothing kept on disk.

use crate::process;
use crate::programs::{self, Program};
use crate::resp::Connection;
use std::net::SocketAddr;
use tempfile::TempDir;
use tidegate::script::RedisReply;

/// A server that runs until this is dropped.
pub struct RedisServer {
    program: Program,
    at: SocketAddr,
    /// Its own, because a node of a cluster keeps a file.
    _folder: TempDir,
}

impl RedisServer {
    /// Starts one, with its default of one thread that serves all.
    ///
    /// # Errors
    /// When redis-server is missing or does not start.
    pub fn start() -> Result<Self, String> {
        Self::start_with(&[])
    }

    /// Starts one with these arguments too.
    ///
    /// # Errors
    /// When redis-server is missing or does not start.
    pub fn start_with(more: &[&str]) -> Result<Self, String> {
        Self::start_at(programs::free_address()?, more)
    }

    /// Ends it, and starts an empty server in its place.
    ///
    /// # Errors
    /// When redis-server does not start.
    pub fn replaced(self) -> Result<Self, String> {
        let at = self.at;
        drop(self);
        Self::start_at(at, &[])
    }

    fn start_at(at: SocketAddr, more: &[&str]) -> Result<Self, String> {
        let port = at.port().to_string();
        let folder = TempDir::new().map_err(|error| format!("no folder: {error}"))?;
        let dir = folder.path().to_string_lossy().into_owned();
        let arguments = ["--port", &port, "--bind", "127.0.0.1", "--dir", &dir];
        let arguments = arguments.into_iter().chain(["--save", "", "--appendonly", "no"]);
        let arguments = arguments.chain(more.iter().copied());
        let program = Program::start("redis-server", arguments)?.listening(at)?;
        Ok(Self { program, at, _folder: folder })
    }

    /// Where it listens.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// The number of scripts that it has run, the CPU time that it took, and the bytes that it read and wrote so far.
    ///
    /// # Errors
    /// When it is gone.
    pub fn did(&self) -> Result<Did, String> {
        let mut connection = self.connect()?;
        let mut info = |section: &[u8]| match connection.ask(&[b"INFO", section])? {
            RedisReply::Bytes(answer) => Ok(String::from_utf8_lossy(&answer).into_owned()),
            answer => Err(format!("INFO tells {answer:?}")),
        };
        let (commands, stats) = (info(b"commandstats")?, info(b"stats")?);
        let cpu_us = process::cpu(self.pid())?.as_micros() as u64;
        Ok(Did { scripts: scripts(&commands), cpu_us, network_bytes: network_bytes(&stats) })
    }

    /// A connection to it.
    ///
    /// # Errors
    /// When it is gone.
    pub fn connect(&self) -> Result<Connection, String> {
        Connection::open(self.at)
    }
}

/// The work of a store so far; none where there is no store.
///
/// # Errors
/// When it is gone.
pub fn did(store: Option<&RedisServer>) -> Result<Did, String> {
    store.map_or_else(|| Ok(Did::default()), RedisServer::did)
}

/// The work of a store so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Did {
    pub scripts: u64,
    pub cpu_us: u64,
    /// Read and written, at all connections.
    pub network_bytes: u64,
}

impl Did {
    /// Returns the work of the store since then.
    pub fn since(self, before: Self) -> Self {
        Self {
            scripts: self.scripts - before.scripts,
            cpu_us: self.cpu_us - before.cpu_us,
            network_bytes: self.network_bytes - before.network_bytes,
        }
    }

    /// Returns the work of two stores together.
    pub fn and(self, other: Self) -> Self {
        Self {
            scripts: self.scripts + other.scripts,
            cpu_us: self.cpu_us + other.cpu_us,
            network_bytes: self.network_bytes + other.network_bytes,
        }
    }
}

/// The number of scripts that were run, by the store's own count of its commands.
fn scripts(message: &str) -> u64 {
    let lines = message.lines().filter_map(|line| line.strip_prefix("cmdstat_eval"));
    let calls = lines
        .filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok());
    calls.sum()
}

/// The bytes that a server read and wrote.
fn network_bytes(message: &str) -> u64 {
    let of =
        |name: &str| message.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
    let both = ["total_net_input_bytes:", "total_net_output_bytes:"].map(of);
    both.into_iter().flatten().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_counted_by_text_and_by_digest() {
        let answer = "# Commandstats\r\ncmdstat_eval:calls=2,usec=9,x=1\r\n\
                    cmdstat_evalsha:calls=40,usec=9\r\ncmdstat_time:calls=42,usec=9\r\n";
        assert_eq!(scripts(answer), 42);
        assert_eq!(scripts(""), 0);
    }

    #[test]
    fn bytes_are_those_of_both_directions() {
        let message = "a:9\r\ntotal_net_input_bytes:40\r\ntotal_net_output_bytes:2\r\n";
        assert_eq!((network_bytes(message), network_bytes("")), (42, 0));
    }
}
