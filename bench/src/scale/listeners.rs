//! A server, asked at one of its listeners: its limiters in memory or over a store.

use super::sample;
use crate::harness::{Asked, Options, Sample};
use crate::overload::cases::{Load, Scenario, asks};
use crate::process;
use crate::redis_server::{RedisServer, did};
use crate::server::load::{self, Asks};
use crate::server::running::{self, Server};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The place of the limiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Memory,
    Store,
    /// In a store, with leases.
    Leased,
    /// In a store, one unit a day, and the server has a denial memory.
    Refused,
}

impl Kept {
    fn rules(self) -> String {
        // The URL of the command line replaces this URL.
        let store = "[store]\nurl = \"redis://127.0.0.1\"\ntimeout = \"1s\"\nnodes = 1\n";
        let store = match self {
            Self::Memory => String::new(),
            Self::Store | Self::Leased => store.to_owned(),
            Self::Refused => format!("{store}denial_memory = true\n"),
        };
        let lease = if self == Self::Leased { "lease = \"auto\"\n" } else { "" };
        let rate = if self == Self::Refused { "1/d" } else { "1000000/s" };
        let rule = |name: &str, key: &str| {
            let algorithm = "algorithm = \"token_bucket\"";
            format!(
                "[[rule]]\nname = \"{name}\"\ndomain = \"{name}\"\n{key}{algorithm}\nrate = \"{rate}\"\n{lease}"
            )
        };
        store + &rule("one", "") + &rule("many", "key = [\"user\"]\n")
    }
}

/// A server and the load on it.
pub struct OfServer {
    asks: Asks,
    kept: Kept,
    server: Server,
    at: SocketAddr,
    store: Option<RedisServer>,
}

impl OfServer {
    /// Starts it.
    ///
    /// # Errors
    /// When a program is missing or does not start.
    pub fn begin(
        options: &Options,
        load: Load,
        scenario: Scenario,
        kept: Kept,
    ) -> Result<Self, String> {
        let tidegate = running::tidegate(options)?;
        let store = (kept != Kept::Memory).then(RedisServer::start).transpose()?;
        let server = Server::start(&tidegate, &kept.rules(), &running::ALL, store.as_ref())?;
        let at = server.at(load.listener.option())?;
        Ok(Self { asks: asks(scenario, load), kept, server, at, store })
    }
}

impl Asked for OfServer {
    fn sample(&mut self, length: Duration) -> Result<Sample, String> {
        let before = did(self.store.as_ref())?;
        let cpu_before = process::cpu(self.server.pid())?;
        let begun = Instant::now();
        let mut answer = load::run(&self.asks, &[self.at], length)?;
        let wall = answer.stopped.map_or(length, |stopped| stopped.duration_since(begun));
        let did = did(self.store.as_ref())?.since(before);
        let cpu = process::cpu(self.server.pid())?.saturating_sub(cpu_before);
        let admitted: u64 = answer.admitted.iter().map(|units| u64::from(*units)).sum();
        let refused = self.kept == Kept::Refused;
        // The first of all takes the one unit.
        if !answer.other_us.is_empty() || answer.unanswered > 0 || refused && admitted > 1 {
            let (without, unanswered) = (answer.other_us.len(), answer.unanswered);
            return Err(format!(
                "{without} without the store, {unanswered} not answered, {admitted} admitted"
            ));
        }
        let asked = answer.exact_us.len() as u64;
        Ok(sample(asked, wall, cpu, did, &mut answer.exact_us))
    }
}
