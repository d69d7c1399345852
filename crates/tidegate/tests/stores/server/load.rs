//! Requests of many tasks together, over limiters of every algorithm that are used up one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate::{AlgorithmKind, Descriptor, LeaseSpec, Request, RuleSpec, SharedGate};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::records::{Outcome, Record};
use super::rule;

/// Units a day of each key: enough to take some ahead, in modes that do.
pub fn limit() -> u64 {
    if takes_ahead() { 200 } else { 20 }
}

/// The number of times that each key is asked, by all tasks together, before the next key.
pub fn asked() -> u64 {
    2 * limit()
}

/// The number of tasks.
const TASKS: usize = 64;
/// The pause between an answer and the next request of a task: a degraded answer takes no time, and would make
/// a busy loop.
const PAUSE: Duration = Duration::from_millis(4);

/// Returns the mode of the rules of loads: `leased` or `split`, as far as algorithms can, or another word for exact.
fn mode() -> String {
    std::env::var("TIDEGATE_MODE").unwrap_or_default()
}

/// Returns whether nodes take units ahead.
pub fn takes_ahead() -> bool {
    ["leased", "split"].contains(&mode().as_str())
}

/// A rule of each algorithm, each in a domain of its own name.
pub fn rules() -> Vec<RuleSpec> {
    let without = ["sliding_log", "leaky_queue", "concurrency"];
    let rule = |algorithm: &AlgorithmKind| {
        let rule = rule(*algorithm, limit()).in_domain(algorithm.name());
        match mode().as_str() {
            "leased" if !without.contains(&algorithm.name()) => rule.lease(LeaseSpec::default()),
            "split" if !without.contains(&algorithm.name()) => rule.split(),
            _ => rule,
        }
    };
    AlgorithmKind::ALL.iter().map(rule).collect()
}

/// The algorithm that decides about a key.
pub fn algorithm_of(key: u64) -> AlgorithmKind {
    AlgorithmKind::ALL[key as usize % AlgorithmKind::ALL.len()]
}

/// A load that runs until it is ended.
pub struct Load {
    tasks: JoinSet<Vec<Record>>,
    shared: Arc<Shared>,
}

struct Shared {
    gate: Arc<SharedGate>,
    begun: AtomicU64,
    exact: AtomicU64,
    ends: AtomicBool,
    asks_again: bool,
}

impl Load {
    /// Starts requests. They are asked once, or have an id and are asked again until the store replies.
    pub fn begin(gate: Arc<SharedGate>, asks_again: bool) -> Self {
        let (begun, exact, ends) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared { gate, begun, exact, ends, asks_again });
        let tasks = (0..TASKS).map(|_| ask(Arc::clone(&shared))).collect();
        Self { tasks, shared }
    }

    /// Waits until the store has answered this many more requests.
    pub async fn more_exact(&self, answers: u64) {
        let until = self.shared.exact.load(Relaxed) + answers;
        while self.shared.exact.load(Relaxed) < until {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Ends the load, and returns all requests with their answers.
    pub async fn end(self) -> Vec<Record> {
        self.shared.ends.store(true, Relaxed);
        self.tasks.join_all().await.into_iter().flatten().collect()
    }
}

/// Runs one task.
async fn ask(shared: Arc<Shared>) -> Vec<Record> {
    let mut records = Vec::new();
    while !shared.ends.load(Relaxed) {
        let number = shared.begun.fetch_add(1, Relaxed);
        loop {
            let record = ask_once(&shared, number).await;
            records.push(record);
            tokio::time::sleep(PAUSE).await;
            if !shared.asks_again || record.outcome != Outcome::Degraded {
                break;
            }
        }
    }
    records
}

async fn ask_once(shared: &Shared, number: u64) -> Record {
    let key = number / asked();
    let (user, id) = (format!("k{key}"), number.to_string());
    let entries = [("user", user.as_str()), ("place", "here")];
    let descriptors = [Descriptor::new(&entries)];
    let mut request = Request::new(algorithm_of(key).name(), &descriptors);
    if shared.asks_again {
        request = request.with_id(&id).unwrap();
    }
    let began = Instant::now();
    let answer = shared.gate.check(&request).await;
    // A key without room was not decided by its own limiter either.
    let outcome = match (answer.is_degraded() || answer.is_overflow(), answer.is_allowed()) {
        (true, _) => Outcome::Degraded,
        (false, true) => Outcome::Admitted,
        (false, false) => Outcome::Refused,
    };
    if outcome != Outcome::Degraded {
        shared.exact.fetch_add(1, Relaxed);
    }
    Record { key, began, wait: began.elapsed(), outcome }
}
