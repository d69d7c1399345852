//! A store and the servers over it, or one server with its limiters in memory.

use super::cases::{Listener, Setting};
use crate::programs::{self, Program};
use crate::redis_server::RedisServer;
use crate::server::running::folder_with;
use std::net::SocketAddr;
use std::path::Path;
use tempfile::TempDir;
use tidegate::script::Reply;

const RULES: &str = include_str!("rules.toml");

/// Those who answer, until this is dropped.
pub struct Servers {
    all: Vec<Vec<(Listener, SocketAddr)>>,
    redis: Option<RedisServer>,
    _programs: Vec<Program>,
    _folder: TempDir,
}

impl Servers {
    /// Starts them. Once more where one does not start: an address that was free may have been taken by a
    /// connection meanwhile.
    ///
    /// # Errors
    /// When a program is missing or does not start.
    pub fn start(tidegate: &Path, count: usize, setting: Setting) -> Result<Self, String> {
        let once = || Self::once(tidegate, count, setting);
        once().or_else(|_| once())
    }

    fn once(tidegate: &Path, count: usize, setting: Setting) -> Result<Self, String> {
        let folder = folder_with("rules.toml", RULES.replace("SETTING", setting.word()))?;
        let redis = (setting != Setting::Memory).then(RedisServer::start).transpose()?;
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
        Ok(Self { all, redis, _programs: programs, _folder: folder })
    }

    /// Where each of them is asked.
    pub fn at(&self, wanted: Listener) -> Vec<SocketAddr> {
        let all = self.all.iter().flatten();
        all.filter(|(listener, _)| *listener == wanted).map(|(_, at)| *at).collect()
    }

    /// How many scripts the store has run, and the CPU time it took so far, in microseconds.
    ///
    /// # Errors
    /// When it is gone.
    pub fn store_did(&self) -> Result<Did, String> {
        let Some(redis) = &self.redis else { return Ok(Did::default()) };
        let told = redis.connect()?.ask(&[b"INFO", b"commandstats"])?;
        let Reply::Bytes(told) = told else { return Err(format!("INFO tells {told:?}")) };
        let cpu = crate::process::cpu(redis.pid())?;
        Ok(Did {
            scripts: scripts(&String::from_utf8_lossy(&told)),
            cpu_us: cpu.as_micros() as u64,
        })
    }
}

/// What a store has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Did {
    pub scripts: u64,
    pub cpu_us: u64,
}

impl Did {
    /// What it has done since then.
    pub fn since(self, before: Self) -> Self {
        let Self { scripts, cpu_us } = self;
        Self { scripts: scripts - before.scripts, cpu_us: cpu_us - before.cpu_us }
    }
}

/// How many scripts were run, by the store's own count of its commands.
fn scripts(told: &str) -> u64 {
    let lines = told.lines().filter_map(|line| line.strip_prefix("cmdstat_eval"));
    let calls = lines
        .filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok());
    calls.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_counted_by_text_and_by_digest() {
        let told = "# Commandstats\r\ncmdstat_eval:calls=2,usec=9,x=1\r\n\
                    cmdstat_evalsha:calls=40,usec=9\r\ncmdstat_time:calls=42,usec=9\r\n";
        assert_eq!(scripts(told), 42);
        assert_eq!(scripts(""), 0);
    }
}
