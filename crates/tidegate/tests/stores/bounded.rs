//! Rules that keep a bounded number of keys, and a store without memory: existing limiters stay, and new keys
//! share an overflow limiter or are refused.

use std::sync::Arc;

use tidegate::{
    AlgorithmKind, Answer, Descriptor, Layout, Mode, OnFull, Request, RuleSpec, SharedGate, Spec,
};
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep};

use crate::server::nodes::Nodes;
use crate::server::{Server, check, gate_over, gate_with, served, settings};

/// The set in which the keys of rule `r` are counted.
const COUNTER: &str = "tidegate:?keys:default:r";

fn named_r(algorithm: AlgorithmKind) -> RuleSpec {
    RuleSpec::new("r", Spec::new(algorithm, 5, Duration::from_secs(60))).key(["user"])
}

fn capped(algorithm: AlgorithmKind, most: usize, on_full: OnFull) -> RuleSpec {
    named_r(algorithm).max_keys(most, on_full)
}

async fn ask<'g>(gate: &'g SharedGate, user: &str) -> Answer<'g> {
    let answer = check(gate, user, 1).await;
    assert!(!answer.is_degraded(), "{answer:?}");
    answer
}

/// Asks once for each of these users, and returns those with a limiter of their own.
async fn own(gate: &SharedGate, users: std::ops::Range<usize>) -> Vec<usize> {
    let mut own = Vec::new();
    for user in users {
        if !ask(gate, &user.to_string()).await.is_overflow() {
            own.push(user);
        }
    }
    own
}

#[tokio::test]
async fn a_rule_in_shadow_mode_that_has_no_space_refuses_nobody() {
    let shadow = capped(AlgorithmKind::TokenBucket, 1, OnFull::Refuse).mode(Mode::Shadow);
    let global = RuleSpec::new(
        "all",
        Spec::new(AlgorithmKind::FixedWindow, 100, Duration::from_secs(86_400)),
    );
    let (_server, gate, _) = served(vec![shadow, global]).await;
    for (number, user) in ["a", "b", "c"].into_iter().enumerate() {
        let answer = ask(&gate, user).await;
        assert!(answer.is_allowed());
        assert_eq!(answer.matched()[0].is_overflow(), number > 0);
        assert_eq!(answer.matched()[1].decision().remaining, 99 - number as u64);
    }
}

#[tokio::test]
async fn a_key_that_has_expired_makes_space() {
    let window = Duration::from_millis(200);
    let spec = Spec::new(AlgorithmKind::SlidingWindow, 5, window);
    let rules = vec![RuleSpec::new("r", spec).key(["user"]).max_keys(2, OnFull::Refuse)];
    let (server, gate, _) = served(rules).await;
    for round in 0..3 {
        let first = 10 * round;
        let known = own(&gate, first..first + 4).await;
        assert!(known.len() <= 2, "{known:?}");
        while server.run::<usize>(&["DBSIZE"]) > 1 {
            sleep(Duration::from_millis(20)).await;
        }
        assert!(!ask(&gate, &(first + 5).to_string()).await.is_overflow());
        while server.run::<usize>(&["DBSIZE"]) > 1 {
            sleep(Duration::from_millis(20)).await;
        }
    }
    while server.run::<usize>(&["DBSIZE"]) > 0 {
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_ends_before_its_time_makes_space() {
    let rules = vec![capped(AlgorithmKind::FixedWindow, 1, OnFull::Refuse)];
    let (server, gate, _) = served(rules).await;
    let ada = Request::from(Descriptor::new(&[("user", "ada")]));
    assert!(!ask(&gate, "ada").await.is_overflow());
    assert!(ask(&gate, "bob").await.is_overflow());
    assert!(gate.refund(&ada).await.unwrap().is_allowed());
    assert!(!ask(&gate, "bob").await.is_overflow());
    assert!(ask(&gate, "ada").await.is_overflow());
    server.run::<()>(&["DEL", "tidegate:default:r:bob"]);
    assert!(ask(&gate, "ada").await.is_overflow(), "no node has reported it");
    assert!(!ask(&gate, "bob").await.is_overflow(), "the place is bob's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cap_holds_however_many_ask_at_once_from_however_many_nodes() {
    let server = Server::start(&[]);
    let mut gates = Vec::new();
    for _ in 0..3 {
        let mut patient = settings(&server.url());
        patient.timeout = Duration::from_secs(20);
        let global = RuleSpec::new(
            "all",
            Spec::new(AlgorithmKind::SlidingLog, 100_000, Duration::from_secs(60)),
        );
        let rules = vec![capped(AlgorithmKind::TokenBucket, 100, OnFull::Refuse), global];
        gates.push(Arc::new(gate_with(patient, rules).await.0));
    }
    let mut asking = JoinSet::new();
    for user in 0..2_000 {
        let gate = Arc::clone(&gates[user % 3]);
        asking.spawn(async move { ask(&gate, &user.to_string()).await.is_overflow() });
    }
    let own = asking.join_all().await.into_iter().filter(|overflow| !overflow).count();
    assert_eq!(own, 100);
    assert_eq!(server.run::<usize>(&["ZCARD", COUNTER]), 100);
    let merged: u64 = gates.iter().map(|gate| gate.counts().merged).sum();
    assert!(merged > 0, "none of them went together");
}

#[tokio::test]
async fn in_a_cluster_each_node_has_space_for_its_part_of_the_slots() {
    let cluster = Nodes::start(2, 0);
    let rules = vec![capped(AlgorithmKind::TokenBucket, 100, OnFull::Share)];
    let (gate, _) = gate_over(&cluster.url(), rules).await;
    let known = own(&gate, 0..300).await;
    assert_eq!(known.len(), 100);
    let beyond = ask(&gate, "1000").await;
    assert!(beyond.is_overflow() && !beyond.is_allowed(), "all of them share one limiter");
    let keys = |node: &Server| node.run::<Vec<String>>(&["KEYS", "tidegate:{*?keys:default:r"]);
    for node in &cluster.all {
        let [counter] = keys(node).try_into().unwrap();
        assert_eq!(node.run::<usize>(&["ZCARD", &counter]), 50);
    }
}

#[tokio::test]
async fn without_memory_who_has_a_limiter_keeps_it_and_who_is_new_is_refused() {
    for algorithm in AlgorithmKind::ALL {
        for layout in [None, Some(Layout::SortedSet)] {
            if layout.is_some() && *algorithm != AlgorithmKind::SlidingLog {
                continue;
            }
            let server = Server::start(&["--maxmemory-policy", "noeviction"]);
            let mut capped = named_r(*algorithm);
            capped.spec.layout = layout;
            // A window of a minute may end during the test.
            let global = Spec::new(AlgorithmKind::FixedWindow, 100, Duration::from_secs(86_400));
            let rules = vec![RuleSpec::new("all", global), capped];
            let (gate, events) = gate_over(&server.url(), rules).await;
            assert!(ask(&gate, "ada").await.is_allowed());
            server.run::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
            let mut later = Vec::new();
            for _ in 0..6 {
                let new = ask(&gate, "bob").await;
                assert!(!new.is_allowed() && new.is_overflow(), "{algorithm}: {new:?}");
                later.push(ask(&gate, "ada").await.is_allowed());
            }
            let most = if *algorithm == AlgorithmKind::LeakyQueue { 6 } else { 4 };
            let admitted = later.iter().filter(|allowed| **allowed).count();
            assert!(admitted <= most && admitted >= 4, "{algorithm}: {later:?}");
            assert_eq!(server.run::<usize>(&["EXISTS", "tidegate:default:r:bob"]), 0);
            server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
            let answer = ask(&gate, "bob").await;
            assert!(answer.is_allowed() && !answer.is_overflow());
            let global = answer.matched()[0].decision();
            assert_eq!(global.remaining as usize, 100 - 2 - admitted, "{algorithm}");
            assert!(events.seen().iter().all(|message| !message.starts_with("lost")), "no outage");
        }
    }
}

#[tokio::test]
async fn without_memory_no_key_begins_because_another_has_expired() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let rules = vec![capped(AlgorithmKind::TokenBucket, 100, OnFull::Share)];
    let (gate, _) = gate_over(&server.url(), rules).await;
    assert!(ask(&gate, "ada").await.is_allowed());
    server.run::<()>(&["ZADD", COUNTER, "1", "expired"]);
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let new = ask(&gate, "bob").await;
    assert!(!new.is_allowed() && new.is_overflow(), "{new:?}");
    assert!(ask(&gate, "ada").await.is_allowed());
    assert_eq!(server.run::<usize>(&["EXISTS", "tidegate:default:r:bob"]), 0);
}
