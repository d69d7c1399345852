//! Leases while the network or the store fails, and of a node that ends without giving them back.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{AlgorithmKind, Anchor, Answer, LeaseSpec, OnStoreError, RuleSpec, Spec};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Ahead, leased, most, node, take_all, until, until_held};
use crate::server::proxy::Way;
use crate::server::{LONG, check, gate_with, proxied, rule, settings};

const LIMIT: u64 = 3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_ends_without_giving_back_wastes_what_it_held() {
    for ahead in [Ahead::Leases, Ahead::Shares] {
        for algorithm in [AlgorithmKind::FixedWindow, AlgorithmKind::TokenBucket] {
            let (server, proxy) = proxied().await;
            let rule = ahead.of(rule(algorithm, LIMIT)).on_store_error(OnStoreError::Closed);
            let nodes = (ahead == Ahead::Leases).then_some(2);
            let far = node(&proxy.url(), nodes, vec![rule.clone()]).await;
            let near = [node(&server.url(), nodes, vec![rule]).await];
            until(|| far.counts().nodes == 2 && near[0].counts().nodes == 2).await;
            let mut admitted = until_held(&far, "ada").await;
            proxy.turn(Way::Cut);
            drop(far);
            // A lease that was on its way may be lost as well. The near node gets its own units back once at least.
            let least = LIMIT - 4 * LIMIT / 5;
            admitted += take_all(&near, least.saturating_sub(admitted)).await;
            while check(&near[0], "ada", 1).await.is_allowed() {
                admitted += 1;
            }
            let wanted = least..=most(algorithm, LIMIT);
            assert!(wanted.contains(&admitted), "{ahead:?}, {algorithm}: {admitted} of {LIMIT}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_come_too_late_are_reported_once_and_are_no_overload() {
    let (_server, proxy) = proxied().await;
    let mut settings = settings(&proxy.url());
    settings.timeout = LONG;
    let mut rule = leased(AlgorithmKind::FixedWindow, 1_000_000);
    rule.lease = Some(LeaseSpec { life: Duration::from_millis(5), ..LeaseSpec::default() });
    let (gate, events) = gate_with(settings, vec![rule]).await;
    let gate = Arc::new(gate);
    proxy.turn(Way::Slow(Duration::from_millis(20)));
    let mut callers = JoinSet::new();
    for _ in 0..64 {
        let gate = Arc::clone(&gate);
        callers.spawn(async move {
            loop {
                let _ = check(&gate, "ada", 1).await;
                tokio::task::yield_now().await;
            }
        });
    }
    let answer = |text: &str| events.seen().iter().filter(|answer| *answer == text).count();
    let began = Instant::now();
    while gate.counts().leases_late < 12 {
        assert!(began.elapsed() < LONG, "{:?} {:?}", gate.counts(), events.seen());
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(answer("leases late: fixed_window"), 1, "{:?}", events.seen());
    assert_eq!(answer("leases in time"), 0);
    proxy.turn(Way::Open);
    while answer("leases in time") == 0 {
        assert!(began.elapsed() < LONG, "{:?} {:?}", gate.counts(), events.seen());
        sleep(Duration::from_millis(1)).await;
    }
    let counts = gate.counts();
    assert_eq!((counts.late, answer("overloaded")), (0, 0), "{counts:?} {:?}", events.seen());
    assert!(counts.leases_granted + counts.leases_refused > 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_request_gives_its_units_back_to_a_rule_without_leases_as_well() {
    let (_server, proxy) = proxied().await;
    let mut settings = settings(&proxy.url());
    settings.timeout = Duration::from_millis(20);
    let mut window = Spec::new(AlgorithmKind::FixedWindow, 10, Duration::from_secs(3_600));
    window.anchor = Some(Anchor::FirstRequest);
    let rules =
        [leased(AlgorithmKind::TokenBucket, LIMIT), RuleSpec::new("window", window).key(["user"])];
    let rules = rules.map(|rule| rule.on_store_error(OnStoreError::Closed));
    let (gate, _) = gate_with(settings, rules.into()).await;
    proxy.turn(Way::Slow(Duration::from_millis(300)));
    assert!(!check(&gate, "ada", 1).await.is_allowed());
    proxy.turn(Way::Open);
    let began = Instant::now();
    while gate.counts().undone == 0 {
        assert!(began.elapsed() < LONG, "no late reply was undone");
        sleep(Duration::from_millis(5)).await;
    }
    let remaining = |answer: &Answer<'_>| {
        let matched = answer.matched();
        matched.iter().find(|one| one.rule().name() == "window").map(|one| one.decision().remaining)
    };
    loop {
        let answer = gate.peek(("default", &[("user", "ada")])).await;
        if remaining(&answer) == Some(10) {
            break;
        }
        assert!(began.elapsed() < LONG, "{answer:?}");
        sleep(Duration::from_millis(5)).await;
    }
}
