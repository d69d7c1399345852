//! A redis-server of one's own: on a free port, nothing kept on disk.

use crate::programs::{self, Program};
use crate::resp::Connection;
use std::net::SocketAddr;

/// A server that runs until this is dropped.
pub struct RedisServer {
    program: Program,
    at: SocketAddr,
}

impl RedisServer {
    /// Starts one, with its default of one thread that serves all.
    ///
    /// # Errors
    /// When redis-server is missing or does not start.
    pub fn start() -> Result<Self, String> {
        let at = programs::free_address()?;
        let port = at.port().to_string();
        let arguments =
            ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let program = Program::start("redis-server", arguments)?.listening(at)?;
        Ok(Self { program, at })
    }

    /// Where it listens.
    pub fn at(&self) -> SocketAddr {
        self.at
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// A connection to it.
    ///
    /// # Errors
    /// When it is gone.
    pub fn connect(&self) -> Result<Connection, String> {
        Connection::open(self.at)
    }
}
