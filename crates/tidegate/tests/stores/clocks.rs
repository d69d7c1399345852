//! Clocks that differ: clocks of clients do not matter, and differing clocks of a cluster's nodes are reported.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use testkit::model::{self, Model};
use tidegate::{AlgorithmKind, RuleSpec, SharedGate, Spec};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::server::moved_clock::ahead;
use crate::server::nodes::Nodes;
use crate::server::proxy::Way;
use crate::server::{Events, Folder, Server, check, gate_over, long, proxied};

/// The offset of each client's clock, in seconds.
const AHEAD_S: [i64; 8] = [-3_600, -1_800, -600, -1, 1, 600, 1_800, 3_600];
/// Tasks of each client that ask without a pause.
const TASKS: usize = 4;
/// The variable that gives a client the address of the store and its output file.
const STORE: &str = "TIDEGATE_CLIENT_STORE";
const LOG: &str = "TIDEGATE_CLIENT_LOG";

const LIMIT: u64 = 50;
const WINDOW_US: u64 = 500_000;

/// Returns the time for which each algorithm is saturated.
fn lasting() -> Duration {
    if long() { Duration::from_secs(10) } else { Duration::from_secs(1) }
}

fn short(algorithm: AlgorithmKind) -> RuleSpec {
    let spec = Spec::new(algorithm, LIMIT, Duration::from_micros(WINDOW_US));
    RuleSpec::new(algorithm.name(), spec).key(["user"])
}

/// Asks about one key without a pause. Returns the store's time of each decision, and whether it admitted.
async fn saturate(url: &str, algorithm: AlgorithmKind) -> Vec<(u64, bool)> {
    let (gate, _) = gate_over(url, vec![short(algorithm)]).await;
    let (gate, ends) = (Arc::new(gate), Instant::now() + lasting());
    let tasks: JoinSet<_> = (0..TASKS).map(|_| ask(Arc::clone(&gate), ends)).collect();
    tasks.join_all().await.concat()
}

async fn ask(gate: Arc<SharedGate>, until: Instant) -> Vec<(u64, bool)> {
    let mut answers = Vec::new();
    while Instant::now() < until {
        let answer = check(&gate, "ada", 1).await;
        assert!(!answer.is_degraded());
        answers.push((answer.at().as_micros(), answer.is_allowed()));
    }
    answers
}

/// Compares the clients' answers with a serial limiter: the same requests at the same times, one after the
/// other. Returns how many were admitted.
fn judge(algorithm: AlgorithmKind, mut answers: Vec<(u64, bool)>) -> usize {
    // Within one microsecond refusals come last, because nothing is given back in it.
    answers.sort_unstable_by_key(|(at, allowed)| (*at, !allowed));
    let model = model::AlgorithmKind::named(algorithm.name()).unwrap();
    let mut model = Model::new(model::Policy::new(model, LIMIT, WINDOW_US));
    for (place, (at, allowed)) in answers.iter().enumerate() {
        let expected = model.step(*at, 1).allowed;
        assert_eq!(*allowed, expected, "{algorithm}, request {place} of {} at {at}", answers.len());
    }
    let admitted = answers.iter().filter(|(_, allowed)| *allowed).count();
    assert!(answers.len() > admitted && admitted as u64 >= LIMIT, "{algorithm} was not saturated");
    admitted
}

#[expect(clippy::disallowed_methods, reason = "the report names the wrong clock")]
fn wall_clock_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

/// A test with one client by itself. The test below starts it as one of eight clients: then it writes its wall
/// clock, and a line for each answer.
#[tokio::test]
async fn one_client_is_answered_what_a_serial_limiter_would_say() {
    let (Ok(store), Ok(log)) = (std::env::var(STORE), std::env::var(LOG)) else {
        let server = Server::start(&[]);
        let answer = saturate(&server.url(), AlgorithmKind::SlidingLog).await;
        judge(AlgorithmKind::SlidingLog, answer);
        return;
    };
    let mut lines = format!("{}\n", wall_clock_s());
    for algorithm in AlgorithmKind::ALL {
        for (at, allowed) in saturate(&store, *algorithm).await {
            lines.push_str(&format!("{algorithm} {at} {allowed}\n"));
        }
    }
    std::fs::write(log, lines).unwrap();
}

fn client(store: &str, ahead_s: i64, log: &Path) -> Child {
    let test = "clocks::one_client_is_answered_what_a_serial_limiter_would_say";
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .envs(ahead(ahead_s))
        .env(STORE, store)
        .env(LOG, log)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn eight_processes_with_clocks_an_hour_apart_admit_what_one_would() {
    let (server, folder) = (Server::start(&[]), Folder::new());
    let log = |ahead_s: i64| folder.0.join(format!("{ahead_s}"));
    let started = AHEAD_S.map(|ahead_s| client(&server.url(), ahead_s, &log(ahead_s)));
    for mut client in started {
        assert!(client.wait().unwrap().success());
    }

    let logs = AHEAD_S.map(|ahead_s| std::fs::read_to_string(log(ahead_s)).unwrap());
    for (ahead_s, log) in AHEAD_S.iter().zip(&logs) {
        let answer: i64 = log.lines().next().unwrap().parse().unwrap();
        let off_by = answer - ahead_s - wall_clock_s();
        assert!(off_by.abs() < 300, "a clock is {off_by} s from where it was put");
    }
    let answers = logs.iter().flat_map(|log| log.lines().skip(1)).map(|line| {
        let words: Vec<_> = line.split(' ').collect();
        (words[0], words[1].parse::<u64>().unwrap(), words[2] == "true")
    });
    let answers: Vec<_> = answers.collect();
    for algorithm in AlgorithmKind::ALL {
        let of = answers.iter().filter(|(name, ..)| *name == algorithm.name());
        let answer: Vec<_> = of.map(|(_, at, allowed)| (*at, *allowed)).collect();
        let requests = answer.len();
        let admitted = judge(*algorithm, answer);
        println!("\n| {algorithm} | {requests} | {admitted} | {admitted} | 0 |");
    }
}

/// Starts three primaries; the clock of the second is an hour fast.
fn apart() -> Nodes {
    Nodes::start_in(3, 0, |node| ahead(if node == 1 { 3_600 } else { 0 }))
}

async fn reported_of(events: &Events) -> Vec<String> {
    while events.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    events.seen()
}

#[tokio::test]
async fn nodes_of_a_cluster_whose_clocks_are_apart_are_reported_once() {
    let nodes = apart();
    let (gate, events) = gate_over(&nodes.url(), vec![short(AlgorithmKind::TokenBucket)]).await;
    let answer = reported_of(&events).await;
    assert!(
        answer.len() == 1 && answer[0].contains("clocks of the cluster's primaries"),
        "{answer:?}"
    );
    assert!(check(&gate, "ada", 1).await.is_allowed());
}

#[tokio::test]
async fn a_key_that_comes_to_a_node_an_hour_behind_waits_a_window_and_is_given_one() {
    let nodes = apart();
    for algorithm in AlgorithmKind::ALL {
        let minute = Duration::from_secs(60);
        let rule = RuleSpec::new("here", Spec::new(*algorithm, 6, minute)).key(["user"]);
        let (gate, _) = gate_over(&nodes.url(), vec![rule]).await;
        let begins = format!("tidegate:default:here:{algorithm}");
        let number = nodes.user_on(1, &begins);
        let (user, slot) = (format!("{algorithm}{number}"), nodes.slot(&(begins + &number)));
        while check(&gate, &user, 1).await.is_allowed() {}
        nodes.migrate(slot, 1, 0);

        let refused = check(&gate, &user, 1).await;
        let given = u64::from(refused.is_allowed());
        assert!(!refused.is_degraded(), "{algorithm}: {refused:?}");
        // The counts of one minute fade over the next minute, by a sixth in each step.
        let fades = *algorithm == AlgorithmKind::SlidingCounter;
        let longest = Duration::from_secs(if fades { 70 } else { 60 });
        assert!(refused.retry_after().unwrap() <= longest, "{algorithm}: {refused:?}");
        let mut more = 0;
        while check(&gate, &user, 1).await.is_allowed() {
            more += 1;
        }
        assert!(given + more <= 7, "{algorithm}: one fill at most, and not {}", given + more);
    }
}

#[tokio::test]
async fn a_server_that_says_it_is_old_is_reported() {
    let (_server, proxy) = proxied().await;
    proxy.turn(Way::Aged);
    let (gate, events) = gate_over(&proxy.url(), vec![short(AlgorithmKind::TokenBucket)]).await;
    let answer = reported_of(&events).await;
    assert!(answer.len() == 1 && answer[0].contains("expected 6.2 or later"), "{answer:?}");
    assert!(check(&gate, "ada", 1).await.is_allowed());
}
