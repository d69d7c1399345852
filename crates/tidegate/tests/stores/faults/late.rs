//! A primary that falls silent, is replaced and goes on: units that its late replies took are given back to it, and
//! not to its successor, which never took them.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{AlgorithmKind, Answer, Descriptor, Policy, Request, RuleSpec, SharedGate};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{sleep, timeout};

use crate::faults::closed;
use crate::server::nodes::{Nodes, Watched, until};
use crate::server::proxy::{Proxy, Way};
use crate::server::{Events, LONG, Server, defaults, gate_over, in_use, rule};

/// Units a day, and the number of them that are admitted before the primary falls silent.
const LIMIT: u64 = 10_000;
const ANSWERED: u64 = 6_000;
/// The cost of a request, and how many are sent to the silent primary.
const COST: u64 = 100;
const SENT: usize = 12;
/// Algorithms whose state cannot tell by a time that a unit was never taken.
const ALGORITHMS: [AlgorithmKind; 3] =
    [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow, AlgorithmKind::TokenBucket];

/// Rules that admit only through the store, each in a domain of its own.
fn rules() -> Vec<RuleSpec> {
    let rule = |one: &AlgorithmKind| rule(*one, LIMIT).in_domain(one.name());
    closed(ALGORITHMS.iter().map(rule).collect())
}

/// A limiter: its algorithm and its user.
type Of<'a> = (AlgorithmKind, &'a str);

async fn ask<'g>(gate: &'g SharedGate, (algorithm, user): Of<'_>, cost: u64) -> Answer<'g> {
    let entries = [("user", user)];
    let descriptors = [Descriptor::new(&entries).cost(cost)];
    let request = Request::new(algorithm.name(), &descriptors);
    gate.check(&request).await
}

async fn gate(url: &str, rules: Vec<RuleSpec>) -> (Arc<SharedGate>, Events) {
    let mut settings = defaults(url);
    settings.timeout = Duration::from_millis(500);
    settings.nodes = Some(1);
    let (policy, events) = (Policy::new(rules).unwrap(), Events::default());
    let gate = SharedGate::new(policy, settings, events.observer()).unwrap();
    gate.store().connected().await.unwrap();
    (Arc::new(gate), events)
}

/// Asks for units until as many are admitted.
async fn tell(gate: &SharedGate, of: Of<'_>, units: u64) {
    let mut admitted = 0;
    while admitted < units {
        admitted += COST * u64::from(ask(gate, of, COST).await.is_allowed());
    }
}

/// Returns the number of units that are admitted until the store denies.
async fn rest(gate: &SharedGate, of: Of<'_>) -> u64 {
    let mut admitted = 0;
    loop {
        let answer = ask(gate, of, COST).await;
        admitted += COST * u64::from(answer.is_allowed());
        if !answer.is_allowed() && !answer.is_degraded() {
            return admitted;
        }
    }
}

/// Returns the units in use of a limiter, as soon as the store replies.
async fn used(gate: &SharedGate, (algorithm, user): Of<'_>) -> u64 {
    let entries = [("user", user)];
    in_use(gate, &Request::new(algorithm.name(), &[Descriptor::new(&entries)])).await
}

/// Asks many times at once; returns whether each request was refused because the primary is silent.
async fn ask_at_once(gate: &Arc<SharedGate>, all: &[Of<'_>], cost: u64) -> Vec<bool> {
    let mut asked = JoinSet::new();
    for (algorithm, user) in all.iter().flat_map(|of| [*of; SENT]) {
        let (gate, user) = (Arc::clone(gate), user.to_owned());
        asked.spawn(async move { ask(&gate, (algorithm, &user), cost).await.is_unavailable() });
    }
    asked.join_all().await
}

async fn refused(gate: &Arc<SharedGate>, all: &[Of<'_>]) {
    assert!(ask_at_once(gate, all, COST).await.into_iter().all(|refused| refused));
}

/// Waits until everything that the late replies took was given back, or could not be.
async fn undone(gate: &SharedGate) {
    let is_done = || {
        let counts = gate.counts();
        let undone = counts.undone_units + counts.not_undone_units;
        counts.under_way == 0 && undone == COST * counts.late
    };
    let until_done = async {
        while !is_done() {
            sleep(Duration::from_millis(4)).await;
        }
    };
    assert!(timeout(LONG, until_done).await.is_ok(), "{:?}", gate.counts());
}

/// Waits until the replica has everything that its primary has.
fn in_step(primary: &Server, replica: &Server) {
    let offset = |server: &Server| {
        let message: String = server.run(&["INFO", "replication"]);
        let line = message.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
        line.unwrap().to_owned()
    };
    let says = |message: &str| message.contains(&format!("master_repl_offset:{}", offset(primary)));
    until(replica, &["INFO", "replication"], says);
}

fn is_primary(message: &str) -> bool {
    message.contains("role:master")
}

/// Tells units, freezes the primary, sends requests to it, and waits until the replica is in its place and the gate
/// uses it.
async fn replaced(
    (gate, events): (&Arc<SharedGate>, &Events),
    all: &[Of<'_>],
    [primary, replica]: [&Server; 2],
) {
    for of in all {
        tell(gate, *of, ANSWERED).await;
    }
    // Afterwards the server knows the script of many requests, so it reads the next requests in one go.
    let _ = ask_at_once(gate, all, 0).await;
    undone(gate).await;
    block_in_place(|| in_step(primary, replica));
    primary.signal("STOP");
    refused(gate, all).await;
    events.until(|message| message.contains("lost")).await;
    block_in_place(|| until(replica, &["INFO", "replication"], is_primary));
    events.until(|message| message.ends_with("back")).await;
}

/// The units that callers were told of each limiter, including the first, are at most the limit, and all of it if every
/// unit is asked for.
async fn assert_within(gate: &SharedGate, all: &[Of<'_>], least: u64) {
    for of in all {
        let answer = ANSWERED + rest(gate, *of).await;
        assert!(
            (least..=LIMIT).contains(&answer),
            "{answer} of {LIMIT}: {of:?}, {:?}",
            gate.counts()
        );
    }
}

/// Lets the old primary go on, and asserts that exactly the limit is admitted: nothing was taken from the new primary.
async fn goes_on(gate: &SharedGate, primary: &Server, all: &[Of<'_>]) {
    let before = gate.counts();
    primary.signal("CONT");
    undone(gate).await;
    println!("{} late replies", gate.counts().late - before.late);
    assert_within(gate, all, LIMIT).await;
}

fn of_ada() -> [Of<'static>; 3] {
    ALGORITHMS.map(|algorithm| (algorithm, "ada"))
}

/// A gate whose primary was replaced, while its replies to the last requests are on their way.
struct Replaced {
    gate: Arc<SharedGate>,
    primary: Server,
    replica: Server,
    proxy: Proxy,
}

impl Replaced {
    async fn by_its_replica() -> Self {
        let primary = Server::start(&[]);
        let replica = Server::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
        let proxy = Proxy::before(primary.port).await;
        let (gate, events) = gate(&proxy.url(), rules()).await;
        for of in of_ada() {
            tell(&gate, of, ANSWERED).await;
        }
        undone(&gate).await;
        block_in_place(|| in_step(&primary, &replica));
        replica.run::<()>(&["REPLICAOF", "NO", "ONE"]);
        proxy.name(replica.port);
        proxy.turn(Way::Held);
        refused(&gate, &of_ada()).await;
        events.until(|message| message.starts_with("lost")).await;
        events.until(|answer| answer == "back").await;
        Self { gate, primary, replica, proxy }
    }

    /// Lets the replies pass, and asserts how many units both servers count then.
    async fn assert_used(&self, way: Way, at_the_primary: impl Fn(u64) -> bool) {
        let before = self.gate.counts();
        self.proxy.turn(way);
        undone(&self.gate).await;
        assert!(self.gate.counts().late > before.late, "no reply was late");
        let primary = gate_over(&self.primary.url(), rules()).await.0;
        let replica = gate_over(&self.replica.url(), rules()).await.0;
        for of in of_ada() {
            let used = [used(&primary, of).await, used(&replica, of).await];
            let counts = self.gate.counts();
            assert!(at_the_primary(used[0]) && used[1] == ANSWERED, "{used:?}: {of:?}, {counts:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_late_reply_took_goes_back_over_its_own_connection() {
    let replaced = Replaced::by_its_replica().await;
    let lost = replaced.gate.counts().not_undone_units;
    // A bucket keeps of each request the part of a unit that would have drained since then.
    replaced.assert_used(Way::Open, |used| used <= ANSWERED + SENT as u64).await;
    assert_eq!(replaced.gate.counts().not_undone_units, lost, "nothing is lost");
    assert_within(&replaced.gate, &of_ada(), LIMIT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_late_reply_took_is_lost_with_its_connection_and_counted() {
    let replaced = Replaced::by_its_replica().await;
    let back = replaced.gate.counts().undone_units;
    replaced.assert_used(Way::Ends, |used| used > ANSWERED).await;
    let counts = replaced.gate.counts();
    assert_eq!(counts.undone_units, back, "{counts:?}");
    assert!(counts.not_undone_units > 0, "{counts:?}");
    assert_within(&replaced.gate, &of_ada(), LIMIT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_frozen_primary_took_is_not_given_back_to_the_replica_that_sentinel_promoted() {
    let watched = block_in_place(Watched::start);
    let (gate, events) = gate(&watched.url(), rules()).await;
    let servers = [&watched.primary, &watched.replica];
    replaced((&gate, &events), &of_ada(), servers).await;
    goes_on(&gate, &watched.primary, &of_ada()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_frozen_primary_took_is_not_given_back_to_the_replica_that_a_cluster_promoted() {
    let nodes = block_in_place(|| Nodes::start(3, 1));
    let (gate, events) = gate(&nodes.url(), rules()).await;
    let users =
        ALGORITHMS.map(|algorithm| nodes.user_on(0, &format!("tidegate:{algorithm}:{algorithm}:")));
    let all: Vec<_> =
        ALGORITHMS.iter().zip(&users).map(|(one, user)| (*one, user.as_str())).collect();
    replaced((&gate, &events), &all, [&nodes.all[0], &nodes.all[3]]).await;
    goes_on(&gate, &nodes.all[0], &all).await;
}
