//! The command `rules`: the memory of a server with many rules, as it starts and when each rule has decided once.

use super::running::{self, folder_with};
use super::scrape;
use crate::process;
use crate::programs::{self, Program};
use crate::redis_server::RedisServer;
use crate::report;
use crate::resp::Connection;
use clap::Args;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const HEADINGS: [&str; 6] =
    ["rules", "limits in", "start, s", "loaded, MiB", "asked once, MiB", "at most, MiB"];
/// The pause before memory is read, in which a server ends what it began.
const PAUSE: Duration = Duration::from_secs(1);

/// The options of this command.
#[derive(Args)]
pub struct Rules {
    /// The numbers of rules, each with a `when` of its own.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1_000, 10_000, 100_000])]
    rules: Vec<u32>,
    /// The server's program, in place of one that is built from these sources.
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
}

impl Rules {
    /// Measures and prints.
    ///
    /// # Errors
    /// When a server or `redis-server` is missing, or does not answer as it should.
    pub fn run(&self) -> Result<(), String> {
        let tidegate = running::tidegate(self.tidegate.as_deref())?;
        let mut rows = Vec::new();
        for rules in &self.rules {
            rows.push(row(&tidegate, *rules, None)?);
            rows.push(row(&tidegate, *rules, Some(&RedisServer::start()?))?);
        }
        println!("\n{}", report::ruled(HEADINGS.map(str::to_owned).to_vec(), rows));
        Ok(())
    }
}

/// Starts a server with this number of rules, and asks each rule once.
fn row(tidegate: &Path, rules: u32, store: Option<&RedisServer>) -> Result<Vec<String>, String> {
    let folder = folder_with("rules.toml", scrape::rules(rules))?;
    let resp = programs::free_address()?;
    let config = folder.path().join("rules.toml").to_string_lossy().into_owned();
    let at_resp = resp.to_string();
    let url = store.map(|store| format!("redis://{}", store.at()));
    let listeners = ["--admin", "off", "--resp", &at_resp, "--http", "off", "--grpc", "off"];
    let arguments = ["serve", "--config", &config].into_iter().chain(listeners);
    let in_store = url.iter().flat_map(|url| ["--store", url.as_str()]);
    let began = Instant::now();
    let server = Program::start(tidegate, arguments.chain(in_store))?.listening(resp)?;
    let started = began.elapsed();
    thread::sleep(PAUSE);
    let loaded = process::resident_bytes(server.pid())?;
    let mut connection = Connection::open(resp)?;
    (0..rules).try_for_each(|rule| scrape::decide(&mut connection, rule))?;
    thread::sleep(PAUSE);
    let asked = process::resident_bytes(server.pid())?;
    let peak = process::peak_bytes(server.pid())?;
    Ok(vec![
        rules.to_string(),
        if store.is_some() { "Redis" } else { "memory" }.to_owned(),
        format!("{:.2}", started.as_secs_f64()),
        mib(loaded),
        mib(asked),
        mib(peak),
    ])
}

fn mib(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / f64::from(1 << 20))
}
