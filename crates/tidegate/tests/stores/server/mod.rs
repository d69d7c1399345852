//! Real servers of a test's own, and a gate over them that collects its events.
#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

pub mod load;
pub mod moved_clock;
pub mod nodes;
pub mod proxy;
pub mod records;

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{FromRedisValue, RedisResult, ToRedisArgs};
use testkit::store;
pub use testkit::store::Folder;
use tidegate::store::Store as _;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Policy, Request, RuleSpec, Setup, SharedGate, Spec,
    StoreError, StoreEvent, StoreSettings,
};

/// A server that ends with the test, and what it is asked.
pub struct Server(store::Server);

impl Deref for Server {
    type Target = store::Server;

    fn deref(&self) -> &store::Server {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut store::Server {
        &mut self.0
    }
}

impl Server {
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(&[], arguments)
    }

    /// Starts a server with these variables in its environment.
    pub fn start_in(environment: &[(String, String)], arguments: &[&str]) -> Self {
        Self(store::Server::start(environment, arguments))
    }

    /// Starts a Sentinel with this configuration file.
    pub fn start_sentinel(file: &Path) -> Self {
        Self(store::Server::start_sentinel(file))
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

    /// The addresses that sent the logged scripts over a key with this text, such as a user, the latest script first.
    pub fn senders_of(&self, text: &str) -> Vec<String> {
        let names = |word: &Vec<u8>| String::from_utf8_lossy(word).contains(text);
        let is_script = |word: &Vec<u8>| word.to_ascii_uppercase().starts_with(b"EVAL");
        let logged: Vec<Logged> = self.run(&["SLOWLOG", "GET", "100000"]);
        let of_key = logged.into_iter().filter(|(_, _, _, words, ..)| {
            words.first().is_some_and(is_script) && words.iter().any(names)
        });
        of_key.map(|(_, _, _, _, sender, _)| sender).collect()
    }
}

/// The arguments of a server that logs every command.
pub const LOG_ALL: [&str; 4] = ["--slowlog-log-slower-than", "0", "--slowlog-max-len", "100000"];

/// A command of the slow log: its number, time and length, its words, and the address and name of its sender.
type Logged = (u64, u64, u64, Vec<Vec<u8>>, String, String);

/// Returns whether tests may take long.
pub fn long() -> bool {
    testkit::threads::long()
}

/// Returns whether direct calls go over a connection of their runtime.
pub fn has_direct_calls() -> bool {
    std::env::var_os("TIDEGATE_DIRECT").is_some()
}

/// The events of the store, as text.
#[derive(Clone, Default)]
pub struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    pub fn observer(&self) -> impl Fn(StoreEvent<'_>) + Send + Sync + use<> {
        let events = Arc::clone(&self.0);
        move |event| {
            let message = match event {
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
                StoreEvent::LeasesLate { rule } => format!("leases late: {rule}"),
                StoreEvent::LeasesInTime => "leases in time".to_owned(),
                StoreEvent::Overloaded => "overloaded".to_owned(),
                StoreEvent::OverloadEnded { undecided } => format!("overload ended: {undecided}"),
                StoreEvent::DataLost { limiters } => format!("data lost: {limiters}"),
                StoreEvent::Finding(finding) => format!("finding: {finding}"),
                _ => "?".to_owned(),
            };
            events.lock().unwrap().push(message);
        }
    }

    pub fn seen(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Asserts that there was no event.
    pub fn assert_none(&self) {
        assert_eq!(self.seen(), Vec::<String>::new());
    }

    /// Waits for an event that `such` accepts; fails if none comes for long.
    pub async fn until(&self, such: impl Fn(&str) -> bool) {
        let waits = async {
            while !self.seen().iter().any(|answer| such(answer)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let answer = tokio::time::timeout(LONG, waits).await;
        assert!(answer.is_ok(), "{:?}", self.seen());
    }
}

/// A deadline that no machine misses, for tests with an available store.
pub const LONG: Duration = Duration::from_secs(30);

/// Settings with their defaults.
pub fn defaults(url: &str) -> StoreSettings {
    let mut settings = StoreSettings::new(url.parse().unwrap());
    settings.direct = has_direct_calls();
    settings
}

pub fn settings(url: &str) -> StoreSettings {
    let mut settings = defaults(url);
    settings.timeout = LONG;
    // Otherwise the store would get calls and a key in addition to the tests' own; `nodes_seen` tests these.
    settings.nodes = Some(1);
    settings
}

/// A rule of `limit` units a day, with one limiter for each `user`.
pub fn rule(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    let day = Duration::from_secs(86_400);
    RuleSpec::new(algorithm.name(), Spec::new(algorithm, limit, day)).key(["user"])
}

/// A server, and a proxy before it.
pub async fn proxied() -> (Server, proxy::Proxy) {
    let server = Server::start(&[]);
    let proxy = proxy::Proxy::before(server.port).await;
    (server, proxy)
}

/// Starts a server, and makes a gate over it.
pub async fn served(rules: Vec<RuleSpec>) -> (Server, SharedGate, Events) {
    let server = Server::start(&[]);
    let (gate, events) = gate_over(&server.url(), rules).await;
    (server, gate, events)
}

/// Makes a gate of one of so many nodes, or of nodes that count each other in the store.
pub async fn gate_among(
    nodes: impl Into<Option<u64>>,
    url: &str,
    rules: Vec<RuleSpec>,
) -> (SharedGate, Events) {
    let mut settings = settings(url);
    settings.nodes = nodes.into();
    gate_with(settings, rules).await
}

/// Makes a gate that was given no time to reach its store.
pub fn unconnected(settings: StoreSettings, rules: Vec<RuleSpec>) -> SharedGate {
    SharedGate::new(Policy::new(rules).unwrap(), settings, |_| {}).unwrap()
}

/// Makes a gate over a running server.
pub async fn gate_over(url: &str, rules: Vec<RuleSpec>) -> (SharedGate, Events) {
    gate_with(settings(url), rules).await
}

pub async fn gate_with(settings: StoreSettings, rules: Vec<RuleSpec>) -> (SharedGate, Events) {
    gate_of(settings, setup(rules)).await
}

/// The rules of a gate, to which its test adds.
pub fn setup(rules: Vec<RuleSpec>) -> Setup {
    Setup::new(Policy::new(rules).unwrap())
}

pub async fn gate_of(settings: StoreSettings, setup: Setup) -> (SharedGate, Events) {
    let events = Events::default();
    let gate = SharedGate::new(setup, settings, events.observer()).unwrap();
    match gate.store().connected().await {
        // A busy machine misses a short deadline.
        Err(StoreError::Timeout) => gate.store().fit().await,
        found => found.unwrap(),
    }
    (gate, events)
}

pub async fn check<'g>(gate: &'g SharedGate, user: &str, cost: u64) -> Answer<'g> {
    let entries = [("user", user)];
    let descriptors = [Descriptor::new(&entries).cost(cost)];
    // The answer borrows only the gate.
    let request = Request::new("default", &descriptors);
    gate.check(&request).await
}

/// Takes a unit of the rule that limits `ada`, and returns the units left.
pub async fn remaining(gate: &SharedGate) -> u64 {
    remaining_of(gate, "ada").await
}

/// Takes a unit of the rule that limits this user, and returns the units left.
pub async fn remaining_of(gate: &SharedGate, user: &str) -> u64 {
    let answer = check(gate, user, 1).await;
    assert!(!answer.is_degraded(), "{answer:?}");
    answer.reported().unwrap().decision().remaining
}

/// The units in use of the first limiter of a request, by the store, as soon as it replies.
pub async fn in_use(gate: &SharedGate, request: &Request<'_>) -> u64 {
    loop {
        let answer = gate.peek(request).await;
        if let (false, Some(seen)) = (answer.is_degraded(), answer.reported()) {
            return seen.decision().limit - seen.decision().remaining;
        }
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
}

/// Asks until the breaker has opened, and counts the answers.
pub async fn until_lost(gate: &SharedGate, events: &Events) -> u32 {
    let mut asked = 0;
    while !events.seen().iter().any(|message| message.starts_with("lost")) {
        let _ = check(gate, "lost", 1).await;
        asked += 1;
        assert!(asked < 1_000, "the store is away and no event says so");
    }
    asked
}

/// Kills the server, and waits until the gate has found the store lost.
pub async fn lose(server: &mut Server, gate: &SharedGate, events: &Events) {
    server.kill();
    until_lost(gate, events).await;
}

pub fn path(path: &Path) -> String {
    path.display().to_string()
}
