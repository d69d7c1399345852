//! Leases and shares lose no unit while the store is away longer than they live, or while another rule refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tidegate::store::Store;
use tidegate::{AlgorithmKind, LeaseSpec, OnStoreError, RuleSpec, SharedGate, Spec};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{Instant, sleep};

use super::{TASKS, held};
use crate::server::{LONG, Server, check, gate_with, settings};

const LIMIT: u64 = 10_000;
const TEN_HOURS: Duration = Duration::from_secs(36_000);
/// The outage lasts longer than any lease or share.
const OUTAGE: Duration = Duration::from_millis(2_500);

/// A limit of ten hours, decided in each mode.
fn modes() -> Vec<(&'static str, RuleSpec)> {
    let spec = Spec::new(AlgorithmKind::FixedWindow, LIMIT, TEN_HOURS);
    let rule = || RuleSpec::new("own", spec).key(["user"]).on_store_error(OnStoreError::Closed);
    let long = LeaseSpec { max_percent: 20, life: Duration::from_secs(1) };
    vec![
        ("exact", rule()),
        ("lease = \"auto\"", rule().lease(LeaseSpec::default())),
        ("lease with life", rule().lease(long)),
        ("split", rule().split()),
    ]
}

async fn two_nodes(server: &Server, rule: &RuleSpec) -> Vec<Arc<SharedGate>> {
    let mut gates = Vec::new();
    for _ in 0..2 {
        let mut settings = settings(&server.url());
        (settings.timeout, settings.nodes) = (Duration::from_millis(100), Some(2));
        gates.push(Arc::new(gate_with(settings, vec![rule.clone()]).await.0));
    }
    gates
}

/// Asks for single units through all nodes for a while, and returns how many were admitted.
async fn ask_for(gates: &[Arc<SharedGate>], time: Duration) -> u64 {
    let (until, mut asking) = (Instant::now() + time, JoinSet::new());
    for gate in gates.iter().flat_map(|gate| std::iter::repeat_n(gate, TASKS)) {
        let gate = Arc::clone(gate);
        asking.spawn(async move {
            let mut admitted = 0;
            while Instant::now() < until {
                admitted += u64::from(check(&gate, "ada", 1).await.is_allowed());
                tokio::task::yield_now().await;
            }
            admitted
        });
    }
    asking.join_all().await.into_iter().sum()
}

/// Takes what is left, when nothing is held any more, and returns how much that was.
async fn take_the_rest(gates: &[Arc<SharedGate>], least: u64) -> u64 {
    let (began, mut admitted) = (Instant::now(), 0);
    while admitted < least && began.elapsed() < LONG {
        admitted += ask_for(gates, Duration::from_millis(50)).await;
    }
    admitted
}

/// Spends some units in each mode, lets a fault happen, and asserts that all others can be had afterwards.
async fn lose_nothing(name: &str, start: &[&str], mut fault: impl AsyncFnMut(&mut Server)) {
    for (mode, rule) in modes() {
        let mut server = Server::start(start);
        let gates = two_nodes(&server, &rule).await;
        let (began, mut admitted) = (Instant::now(), 0);
        let has_leases = rule.lease.is_some() || rule.split;
        while admitted < 1_000 || has_leases && gates.iter().any(|gate| held(gate) == 0) {
            admitted += ask_for(&gates, Duration::from_millis(5)).await;
            assert!(admitted < LIMIT && began.elapsed() < LONG, "{mode}: {admitted}, none held");
        }
        fault(&mut server).await;
        for gate in &gates {
            gate.store().fit().await;
        }
        admitted += take_the_rest(&gates, LIMIT * 99 / 100 - admitted).await;
        let lost: Vec<_> = gates.iter().map(|gate| gate.counts().leased_expired).collect();
        println!("{name}, {mode}: {admitted} of {LIMIT}, {lost:?} leased units lost");
        assert!((LIMIT * 99 / 100..=LIMIT).contains(&admitted), "{name}, {mode}: {admitted}");
        assert_eq!(lost, [0, 0], "{name}, {mode}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_stands_still_longer_than_a_share_burns_no_unit() {
    lose_nothing("SIGSTOP", &[], async |server| {
        server.signal("STOP");
        sleep(OUTAGE).await;
        server.signal("CONT");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_comes_back_with_its_file_after_a_share_has_ended_burns_no_unit() {
    let start = ["--appendonly", "yes", "--appendfsync", "always"];
    lose_nothing("restart with its file", &start, async |server| {
        server.kill();
        sleep(OUTAGE).await;
        block_in_place(|| server.start_again(&["--appendonly", "yes"]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_of_another_rule_eat_no_leased_unit() {
    const SMALL: u64 = 500;
    let server = Server::start(&[]);
    let life = Duration::from_millis(30);
    let own = Spec::new(AlgorithmKind::FixedWindow, 1, TEN_HOURS);
    let all = RuleSpec::new("all", Spec::new(AlgorithmKind::FixedWindow, SMALL, TEN_HOURS));
    let mut settings = settings(&server.url());
    // Otherwise few refusals would be the store's.
    settings.denial_memory = false;
    let rules = vec![
        all.lease(LeaseSpec { max_percent: 20, life }),
        RuleSpec::new("own", own).key(["user"]),
    ];
    let gate = Arc::new(gate_with(settings, rules).await.0);
    let ends = Arc::new(AtomicBool::new(false));
    let mut greedy = JoinSet::new();
    for _ in 0..8 {
        let (gate, ends) = (Arc::clone(&gate), Arc::clone(&ends));
        greedy.spawn(async move {
            let mut admitted = 0;
            while !ends.load(SeqCst) {
                admitted += u64::from(check(&gate, "eve", 1).await.is_allowed());
            }
            admitted
        });
    }
    // Eve has one unit for herself. All others are for callers who ask once.
    let (mut honest, began) = (0, Instant::now());
    for caller in 0.. {
        if honest == SMALL - 1 || began.elapsed() > LONG {
            break;
        }
        honest += u64::from(check(&gate, &format!("user {caller}"), 1).await.is_allowed());
    }
    ends.store(true, SeqCst);
    let eve: u64 = greedy.join_all().await.into_iter().sum();
    let counts = gate.counts();
    assert!(counts.leased > 0, "nothing was leased");
    assert_eq!((honest, eve, counts.leased_expired), (SMALL - 1, 1, 0), "{counts:?}");
    let began = Instant::now();
    while held(&gate) > 0 {
        assert!(began.elapsed() < LONG, "{:?}", gate.counts());
        sleep(Duration::from_millis(1)).await;
    }
}
