//! The limit changes every 100 ms while clients of every protocol ask: no request fails, no unit is admitted beyond the
//! limit in force, and metrics and statistics have each answer once.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tokio::task::JoinSet;

use super::{folder, rules, serve};
use crate::process::Server;
use crate::protocols::Asker;
use crate::store::Store;

/// Changes of the limit in a run: more than the log has of other events in a minute.
const CHANGES: u64 = 24;
const CHANGES_OF_A_LONG_RUN: u64 = 200;
const PAUSE: Duration = Duration::from_millis(100);
/// The difference between a raised limit and the previous raised limit.
const STEP: u64 = 40;
/// Clients of each protocol.
const CLIENTS: usize = 2;

/// The state that all clients share.
#[derive(Default)]
struct Shared {
    /// Twice the number of changes, and one more while none is under way.
    phase: AtomicU64,
    /// The limit of the phase.
    limit: AtomicU64,
    /// Units that were admitted, by the answers that have arrived.
    admitted: AtomicU64,
    /// Answers that have arrived.
    answered: AtomicU64,
    /// The largest limit, once it is in force for good; 0 before.
    last: AtomicU64,
}

impl Shared {
    /// The phase, which comes back with the answer to a request.
    fn begin(&self) -> u64 {
        self.phase.load(SeqCst)
    }

    /// Notes an answer; returns whether the client goes on.
    fn note(&self, began: u64, allowed: bool) -> bool {
        let is_last = self.last.load(SeqCst) > 0 && began == self.phase.load(SeqCst);
        let admitted = self.admitted.fetch_add(u64::from(allowed), SeqCst) + u64::from(allowed);
        let limit = self.limit.load(SeqCst);
        self.answered.fetch_add(1, SeqCst);
        let is_stable = began % 2 == 1 && began == self.phase.load(SeqCst);
        assert!(!is_stable || !allowed || admitted <= limit, "{admitted} of {limit}");
        allowed || !is_last
    }
}

/// Clients of every protocol, each as fast as it is answered.
async fn clients(all: &mut JoinSet<()>, server: &Server, shared: &Arc<Shared>) {
    for (_, mut asker) in Asker::all(server).await {
        let seen = Arc::clone(shared);
        all.spawn(async move {
            loop {
                let began = seen.begin();
                let admitted = asker.admits("default", "ada").await;
                if !seen.note(began, admitted) {
                    break;
                }
            }
        });
    }
}

/// Puts a configuration in force, by SIGHUP at every third change and else over the network.
async fn change(server: &mut Server, file: &Path, number: u64, toml: &str) {
    if number.is_multiple_of(3) {
        fs::write(file, toml).unwrap();
        server.signal("HUP");
    } else {
        server.operator().put_rules("", "*", toml).await.succeeded();
    }
    server.logs("another configuration is in force");
}

/// Changes the limit `changes` times, in turn over the network and by SIGHUP, and then raises it above all before.
async fn run(store: &str, changes: u64) {
    let toml = |limit| format!("{}{store}", rules(limit));
    let (_folder, file) = folder(&toml(STEP));
    let mut server = serve(&file, &["--no-watch"]);
    let (admin, shared) = (server.operator(), Arc::new(Shared::default()));
    shared.limit.store(STEP, SeqCst);
    shared.phase.store(1, SeqCst);
    let mut asking = JoinSet::new();
    for _ in 0..CLIENTS {
        clients(&mut asking, &server, &shared).await;
    }
    for change in 1..=changes {
        tokio::time::sleep(PAUSE).await;
        // Every other change takes back more than the change before it has given.
        let limit = if change % 2 == 0 { change * STEP } else { change * STEP / 2 };
        shared.phase.fetch_add(1, SeqCst);
        self::change(&mut server, &file, change, &toml(limit)).await;
        shared.limit.store(limit, SeqCst);
        shared.phase.fetch_add(1, SeqCst);
    }
    let last = (changes + 1) * STEP;
    shared.phase.fetch_add(1, SeqCst);
    admin.put_rules("", "*", &toml(last)).await.succeeded();
    shared.limit.store(last, SeqCst);
    shared.phase.fetch_add(1, SeqCst);
    shared.last.store(last, SeqCst);
    asking.join_all().await;
    assert_eq!(shared.admitted.load(SeqCst), last, "each unit once, and none is lost");
    let answered = shared.answered.load(SeqCst);
    assert!(answered > last);
    counted(&server, last, answered - last).await;
    assert_eq!(super::remaining(&server).await, 0);
    let counts = admin.get("/v1/rules").await.json()["reloads"].clone();
    assert_eq!((&counts["succeeded"], &counts["failed"]), (&(changes + 1).into(), &0.into()));
}

/// Metrics and statistics have each answer once, and no other.
async fn counted(server: &Server, admitted: u64, refused: u64) {
    let admin = server.operator();
    let (metrics, stats) = (admin.get("/metrics").await.text, admin.get("/v1/stats").await.json());
    let sum = |family: &str, label: &str| -> u64 {
        let lines = metrics.lines().filter(|line| line.starts_with(family) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    for (outcome, count) in [("allowed", admitted), ("refused", refused)] {
        let labels = format!("rule=\"per-user\",outcome=\"{outcome}\"");
        assert_eq!(sum("tidegate_rule_decisions_total{", &labels), count, "{labels}");
        assert_eq!(stats["rules"][0]["decisions"][outcome], count, "{labels}");
    }
    assert_eq!(sum("tidegate_requests_total{", ""), admitted + refused);
    assert_eq!(sum("tidegate_requests_total{", "outcome=\"error\""), 0);
}

fn changes() -> u64 {
    if testkit::threads::long() { CHANGES_OF_A_LONG_RUN } else { CHANGES }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_changes_all_the_time_holds_over_every_protocol() {
    run("", changes()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_changes_all_the_time_holds_over_a_store() {
    let store = Store::start();
    run(&store.with(""), changes()).await;
}
