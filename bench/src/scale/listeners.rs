//! A server, asked at one of its listeners: its limiters in memory or over a store.

use super::{Sample, Subject};
use crate::overload::cases::{Case, Load, Scenario, Setting};
use crate::overload::closed_loop;
use crate::overload::servers::Servers;
use crate::server::running;
use std::path::Path;
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
pub struct Server {
    case: Case,
    kept: Kept,
    servers: Servers,
}

impl Server {
    /// Starts it.
    ///
    /// # Errors
    /// When a program is missing or does not start.
    pub fn begin(
        tidegate: Option<&Path>,
        load: Load,
        scenario: Scenario,
        kept: Kept,
    ) -> Result<Self, String> {
        let tidegate = running::tidegate(tidegate)?;
        let servers = Servers::under(&tidegate, 1, &kept.rules(), kept != Kept::Memory)?;
        let case = Case { scenario, load, servers: 1, setting: Setting::Local };
        Ok(Self { case, kept, servers })
    }
}

impl Subject for Server {
    fn sample(&mut self, length: Duration) -> Result<Sample, String> {
        let at = self.servers.at(self.case.load.listener);
        let (before, cpu_before) = (self.servers.store_did()?, self.servers.cpu()?);
        let begun = Instant::now();
        let mut answer = closed_loop::run(&self.case, &at, length)?;
        let wall = answer.stopped.map_or(length, |stopped| stopped.duration_since(begun));
        let did = self.servers.store_did()?.since(before);
        let cpu = self.servers.cpu()?.saturating_sub(cpu_before);
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
        Ok(Sample::of(asked, wall, cpu, did, &mut answer.exact_us))
    }
}
