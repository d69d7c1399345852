//! A store and the servers over it, or one server with its limiters in memory.

use super::cases::{Listener, Setting};
use crate::process;
use crate::programs::{self, Program};
use crate::redis_server::{Did, RedisServer};
use crate::server::running::folder_with;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const RULES: &str = include_str!("rules.toml");

/// The counting of limits that many callers ask for. All modes admit just their units in less than a window.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum Mode {
    /// The store decides each request.
    #[default]
    Exact,
    /// Servers lease units.
    Leased,
    /// Servers hold shares of the limits.
    Split,
}

impl Mode {
    /// The fields of the rules.
    const fn fields(self) -> &'static str {
        match self {
            Self::Exact => "algorithm = \"sliding_log\"",
            Self::Leased => "algorithm = \"sliding_window\"\nstrict = true\nlease = \"auto\"",
            Self::Split => "algorithm = \"sliding_window\"\nstrict = true\nsplit = true",
        }
    }
}

/// Those who answer, until this is dropped.
pub struct Servers {
    all: Vec<Vec<(Listener, SocketAddr)>>,
    redis: Option<RedisServer>,
    programs: Vec<Program>,
    _folder: TempDir,
}

impl Servers {
    /// Starts them. If a server does not start, it is tried once more: a connection may have taken an address that was
    /// free.
    ///
    /// # Errors
    /// When a program is missing or does not start.
    pub fn start(
        tidegate: &Path,
        count: usize,
        setting: Setting,
        mode: Mode,
    ) -> Result<Self, String> {
        let rules = RULES.replace("SETTING", setting.word()).replace("COUNTED", mode.fields());
        Self::under(tidegate, count, &rules, setting != Setting::Memory)
    }

    /// Starts them with these rules, over a store or each with its limiters in memory.
    ///
    /// # Errors
    /// When a program is missing or does not start.
    pub fn under(
        tidegate: &Path,
        count: usize,
        rules: &str,
        over_a_store: bool,
    ) -> Result<Self, String> {
        let once = || Self::once(tidegate, count, rules, over_a_store);
        once().or_else(|_| once())
    }

    fn once(
        tidegate: &Path,
        count: usize,
        rules: &str,
        over_a_store: bool,
    ) -> Result<Self, String> {
        let redis = over_a_store.then(RedisServer::start).transpose()?;
        let folder = folder_with("rules.toml", rules)?;
        let rules = folder.path().join("rules.toml");
        let (mut all, mut programs) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut listeners = Vec::new();
            let mut arguments = vec!["serve".into(), "--config".into(), rules.clone().into()];
            for (option, listener) in Listener::OPTIONS {
                let at = programs::free_address()?;
                arguments.extend([option.into(), at.to_string().into()]);
                listeners.extend(listener.map(|listener| (listener, at)));
            }
            if let Some(redis) = &redis {
                let url: std::ffi::OsString = format!("redis://{}", redis.at()).into();
                arguments.extend(["--store".into(), url]);
            }
            let mut program = Program::start(tidegate, arguments)?;
            for (_, at) in &listeners {
                program = program.listening(*at)?;
            }
            programs.push(program);
            all.push(listeners);
        }
        Ok(Self { all, redis, programs, _folder: folder })
    }

    /// Where each of them is asked.
    pub fn at(&self, wanted: Listener) -> Vec<SocketAddr> {
        let all = self.all.iter().flatten();
        all.filter(|(listener, _)| *listener == wanted).map(|(_, at)| *at).collect()
    }

    /// The number of scripts that the store has run, and the CPU time that it took so far, in microseconds.
    ///
    /// # Errors
    /// When it is gone.
    pub fn store_did(&self) -> Result<Did, String> {
        self.redis.as_ref().map_or_else(|| Ok(Did::default()), RedisServer::did)
    }

    /// The CPU time that the servers took so far.
    ///
    /// # Errors
    /// When one is gone.
    pub fn cpu(&self) -> Result<Duration, String> {
        self.programs.iter().map(|program| process::cpu(program.pid())).sum()
    }
}
