//! Real servers of a test's own, on free loopback ports, and a gate over them that collects its events.
//!
//! `TIDEGATE_STORE_SERVER` names a program to use instead of `redis-server`, such as `valkey-server`.
#![allow(
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "each test uses its part, and fails by panicking"
)]

pub mod load;
pub mod moved_clock;
pub mod nodes;
pub mod proxy;
pub mod records;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{FromRedisValue, RedisResult, ToRedisArgs};
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Micros, Policy, Request, RuleSpec, SharedGate, Spec,
    StoreEvent, StoreSettings,
};

/// A folder that is removed with this value.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("tidegate-store-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that ends with the test.
pub struct Server {
    process: Option<Child>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    pub folder: Folder,
    pub port: u16,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(&[], arguments)
    }

    /// Starts a server with these variables in its environment.
    pub fn start_in(environment: &[(String, String)], arguments: &[&str]) -> Self {
        let port = free_port();
        let all = ["--save", "", "--appendonly", "no"].iter().chain(arguments);
        let arguments = all.map(|argument| (*argument).to_owned()).collect();
        let environment = environment.to_vec();
        let folder = Folder::new();
        let mut server = Self { process: None, arguments, environment, folder, port };
        server.start_again(&[]);
        server
    }

    /// Starts a Sentinel with this configuration file.
    pub fn start_sentinel(file: &Path) -> Self {
        let port = free_port();
        let arguments = vec![path(file), "--sentinel".to_owned()];
        let (environment, folder) = (Vec::new(), Folder::new());
        let mut server = Self { process: None, arguments, environment, folder, port };
        server.start_again(&[]);
        server
    }

    /// Starts it again on its port, and waits until it replies, even that it is loading.
    pub fn start_again(&mut self, more: &[&str]) {
        let program = program();
        let mut process = Command::new(&program)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--dir", &self.folder.0.display().to_string()])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} can not be run: {error}"));
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        self.process = Some(process);
        let ready = |line: &String| {
            line.contains("Ready to accept connections")
                || line.contains("Loading RDB produced by")
                || line.contains("+monitor master")
        };
        let mut said = Vec::new();
        for line in lines.map_while(Result::ok) {
            if ready(&line) {
                return;
            }
            said.push(line);
        }
        panic!("{program} ended before it was ready:\n{}", said.join("\n"));
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Sends `SIGSTOP`, which freezes it with its connections open, or `SIGCONT`, which resumes it.
    pub fn signal(&self, name: &str) {
        let process = self.process.as_ref().expect("it runs");
        let sent = Command::new("kill").args(["-s", name, &process.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn connect(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// Runs a command; panics if it fails.
    pub fn run<T: FromRedisValue>(&self, words: &[impl ToRedisArgs]) -> T {
        self.ask(words).unwrap()
    }

    /// Runs a command over a connection of its own.
    pub fn ask<T: FromRedisValue>(&self, words: &[impl ToRedisArgs]) -> RedisResult<T> {
        let mut command = redis::Cmd::new();
        words.iter().for_each(|word| {
            command.arg(word);
        });
        command.query(&mut redis::Client::open(self.url())?.get_connection()?)
    }
}

/// Returns a port that was free a moment ago, and low enough that a cluster's bus can use the one 10,000 above
/// it.
fn free_port() -> u16 {
    loop {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        if port <= u16::MAX - 10_000 {
            return port;
        }
    }
}

/// Returns the server program.
pub fn program() -> String {
    std::env::var("TIDEGATE_STORE_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Whether tests may take long.
pub fn long() -> bool {
    std::env::var_os("TIDEGATE_LONG").is_some()
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The events of the store, as text.
#[derive(Clone, Default)]
pub struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    pub fn observer(&self) -> impl Fn(StoreEvent<'_>) + Send + Sync + use<> {
        let events = Arc::clone(&self.0);
        move |event| {
            let told = match event {
                StoreEvent::Lost(error) => format!("lost: {error}"),
                StoreEvent::StillLost(error) => format!("still lost: {error}"),
                StoreEvent::Undecided { key, error } => {
                    format!("undecided: {}: {error}", String::from_utf8_lossy(key))
                }
                StoreEvent::Back => "back".to_owned(),
                StoreEvent::PartLost { first_slot, last_slot, error } => {
                    format!("{first_slot}-{last_slot} lost: {error}")
                }
                StoreEvent::PartBack { first_slot, last_slot } => {
                    format!("{first_slot}-{last_slot} back")
                }
                StoreEvent::Nodes(nodes) => format!("nodes: {nodes}"),
                StoreEvent::NoShare { rules, nodes } => {
                    format!("no share: {} among {nodes}", rules.join(", "))
                }
                StoreEvent::Overloaded => "overloaded".to_owned(),
                StoreEvent::OverloadEnded { undecided } => format!("overload ended: {undecided}"),
                StoreEvent::Finding(finding) => format!("finding: {finding}"),
                _ => "?".to_owned(),
            };
            events.lock().unwrap().push(told);
        }
    }

    pub fn told(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for an event of which `such` is true; fails if none comes for long.
    pub async fn until(&self, such: impl Fn(&str) -> bool) {
        let waits = async {
            while !self.told().iter().any(|told| such(told)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let long = Duration::from_micros(LONG.as_micros());
        let told = tokio::time::timeout(long, waits).await;
        assert!(told.is_ok(), "{:?}", self.told());
    }
}

/// A deadline that no machine misses, for tests with an available store.
pub const LONG: Micros = Micros::from_secs(30);

pub fn settings(url: &str) -> StoreSettings {
    let mut settings = StoreSettings::new(url.parse().unwrap());
    settings.timeout = LONG;
    // Otherwise the store would get calls and a key beside those of the tests; `nodes_seen` tests these.
    settings.nodes = Some(1);
    settings
}

/// A rule of `limit` units a day, with one limiter for each `user`.
pub fn rule(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    let day = Micros::from_secs(86_400);
    RuleSpec::new(algorithm.name(), Spec::new(algorithm, limit, day)).key(["user"])
}

/// Makes a gate over a running server.
pub async fn gate_over(url: &str, rules: Vec<RuleSpec>) -> (SharedGate, Events) {
    gate_with(settings(url), rules).await
}

pub async fn gate_with(settings: StoreSettings, rules: Vec<RuleSpec>) -> (SharedGate, Events) {
    let events = Events::default();
    let policy = Policy::new(rules).unwrap();
    let gate = SharedGate::new(policy, settings, events.observer()).unwrap();
    gate.connected().await.unwrap();
    (gate, events)
}

pub async fn check<'g>(gate: &'g SharedGate, user: &str, cost: u64) -> Answer<'g> {
    let entries = [("user", user)];
    let descriptors = [Descriptor::new(&entries).cost(cost)];
    // The answer borrows only the gate.
    let request = Request::new("default", &descriptors);
    gate.check(&request).await
}

/// Asks until the breaker has opened, and counts the answers.
pub async fn until_lost(gate: &SharedGate, events: &Events) -> u32 {
    let mut asked = 0;
    while !events.told().iter().any(|told| told.starts_with("lost")) {
        let _ = check(gate, "lost", 1).await;
        asked += 1;
        assert!(asked < 1_000, "the store is away and nobody says so");
    }
    asked
}

pub fn path(path: &Path) -> String {
    path.display().to_string()
}
