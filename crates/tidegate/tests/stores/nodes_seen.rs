//! Nodes that see each other in the store, and how much each may admit while the store does not decide.

use tidegate::{
    AlgorithmKind, Answer, Descriptor, Micros, OnStoreError, OverrideSpec, Policy, RuleSpec,
    SharedGate,
};

use crate::server::nodes::Nodes;
use crate::server::{Events, Server, check, gate_among, gate_over, lose, rule, served, until_lost};

/// The key of the list.
const LIST: &str = "tidegate:?nodes";

async fn gates(url: &str, rules: &[RuleSpec], number: usize) -> Vec<(SharedGate, Events)> {
    let mut gates = Vec::new();
    for _ in 0..number {
        gates.push(gate_among(None, url, rules.to_vec()).await);
    }
    until_seen(&gates, number as u64).await;
    gates
}

/// Waits until each of the gates counts this many nodes.
async fn until_seen(gates: &[(SharedGate, Events)], nodes: u64) {
    let waits = async {
        while !gates.iter().all(|(gate, _)| gate.counts().nodes == nodes) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let answer = tokio::time::timeout(std::time::Duration::from_secs(30), waits).await;
    let counted: Vec<_> = gates.iter().map(|(gate, _)| gate.counts().nodes).collect();
    assert!(answer.is_ok(), "{counted:?}, expected {nodes}");
}

/// Returns the units of `user` that a gate admits without the store.
async fn admitted(gate: &SharedGate, user: &str) -> u64 {
    let mut admitted = 0;
    for _ in 0..30 {
        let answer = check(gate, user, 1).await;
        assert!(answer.is_degraded() && !answer.is_never(), "{answer:?}");
        admitted += u64::from(answer.is_allowed());
    }
    admitted
}

async fn all_admitted(gates: &[(SharedGate, Events)], user: &str) -> Vec<u64> {
    let mut all = Vec::new();
    for (gate, events) in gates {
        until_lost(gate, events).await;
        all.push(admitted(gate, user).await);
    }
    all.sort_unstable();
    all
}

#[tokio::test]
async fn three_nodes_on_one_store_see_each_other_and_share_its_limits_without_it() {
    let mut server = Server::start(&[]);
    let mut few = OverrideSpec::new("user", "few");
    few.limit = Some(tidegate::Limit::Units(2));
    let rule = rule(AlgorithmKind::SlidingLog, 10).with_override(few);
    let gates = gates(&server.url(), &[rule], 3).await;
    let keys: Vec<String> = server.run(&["KEYS", "*"]);
    assert_eq!(keys, [LIST], "one key for all of them");
    let expires: i64 = server.run(&["PTTL", LIST]);
    assert!((1..=5_000).contains(&expires), "{expires}");
    server.kill();
    assert_eq!(all_admitted(&gates, "ada").await, [3, 3, 4]);
    assert_eq!(all_admitted(&gates, "few").await, [0, 1, 1]);
    for (_, events) in &gates {
        let answer = events.seen();
        let of = |start: &str| answer.iter().filter(|message| message.starts_with(start)).count();
        assert_eq!(of("no share: sliding_log among 3"), 1, "{answer:?}");
    }
}

#[tokio::test]
async fn a_node_that_ends_is_counted_no_longer_than_it_is_listed_and_one_that_leaves_not_at_all() {
    let mut server = Server::start(&[]);
    let mut gates = gates(&server.url(), &[rule(AlgorithmKind::TokenBucket, 12)], 3).await;
    gates.pop();
    gates[1].0.leave().await.unwrap();
    let left: Vec<(String, u64)> = server.run(&["ZRANGE", LIST, "0", "-1", "WITHSCORES"]);
    assert_eq!(left.len(), 2, "one has left, and one ended without: {left:?}");
    let [now, _]: [u64; 2] = server.run(&["TIME"]);
    assert!(left.iter().all(|(_, expires)| *expires <= (now + 1) * 1_000 + 5_000), "{left:?}");
    until_seen(&gates[..1], 2).await;
    // Ends the time for which a stopped node is still listed; running nodes list themselves again.
    let over = "local key = KEYS[1] for _, node in ipairs(redis.call('ZRANGE', key, 0, -1)) do \
                redis.call('ZADD', key, 'XX', 1, node) end";
    server.run::<()>(&["EVAL", over, "1", LIST]);
    until_seen(&gates[..1], 1).await;
    server.kill();
    let (gate, events) = &gates[0];
    until_lost(gate, events).await;
    assert_eq!(admitted(gate, "ada").await, 12);
}

#[tokio::test]
async fn a_list_that_is_lost_does_not_give_every_node_the_whole_limit() {
    let server = Server::start(&[]);
    let gates = gates(&server.url(), &[rule(AlgorithmKind::TokenBucket, 12)], 2).await;
    server.run::<()>(&["FLUSHALL"]);
    // Waits until both have listed themselves twice: by then they have reported the first count.
    let expiries = || {
        let listed: Vec<(String, u64)> = server.run(&["ZRANGE", LIST, "0", "-1", "WITHSCORES"]);
        listed.into_iter().map(|(_, expires)| expires)
    };
    let mut first: Vec<u64> = Vec::new();
    while first.len() < 2 {
        tokio::task::yield_now().await;
        first = expiries().collect();
    }
    let last = first.iter().max().unwrap();
    while !expiries().all(|expires| expires > *last) {
        tokio::task::yield_now().await;
    }
    for (_, events) in &gates {
        let answer = events.seen();
        assert!(!answer.iter().any(|answer| answer == "nodes: 1"), "{answer:?}");
    }
}

#[tokio::test]
async fn nodes_of_a_cluster_are_seen_in_one_slot() {
    let cluster = Nodes::start(2, 0);
    let gates = gates(&cluster.url(), &[rule(AlgorithmKind::TokenBucket, 12)], 2).await;
    let lists: Vec<u64> = cluster.all.iter().map(|node| node.run(&["DBSIZE"])).collect();
    assert_eq!(lists.iter().sum::<u64>(), 1, "{lists:?}");
    drop(gates);
}

#[tokio::test]
async fn nobody_is_listed_where_the_number_of_nodes_is_configured() {
    let server = Server::start(&[]);
    let rules = vec![rule(AlgorithmKind::TokenBucket, 12)];
    let (configured, _) = gate_among(3, &server.url(), rules).await;
    assert_eq!(configured.counts().nodes, 3);
    configured.leave().await.unwrap();
    assert_eq!(server.run::<u64>(&["EXISTS", LIST]), 0);
}

/// A node that had no rule with a share was not listed: it began with the whole of each limit.
#[tokio::test]
async fn a_rule_that_becomes_local_while_the_store_is_away_has_the_share_of_the_nodes_last_seen() {
    let mut server = Server::start(&[]);
    let closed = rule(AlgorithmKind::TokenBucket, 12).on_store_error(OnStoreError::Closed);
    let gates = gates(&server.url(), &[closed], 3).await;
    server.kill();
    for (gate, events) in &gates {
        until_lost(gate, events).await;
        let local = rule(AlgorithmKind::TokenBucket, 12);
        gate.replace(Policy::new(vec![local]).unwrap()).unwrap();
        assert_eq!(gate.counts().nodes, 3);
    }
    assert_eq!(all_admitted(&gates, "ada").await, [4, 4, 4]);
}

#[tokio::test]
async fn a_number_of_nodes_above_a_limit_is_warned_of_once() {
    let server = Server::start(&[]);
    let rules = vec![rule(AlgorithmKind::TokenBucket, 3)];
    let (_gate, events) = gate_among(4, &server.url(), rules).await;
    assert_eq!(events.seen(), ["no share: token_bucket among 4"]);
}

/// Makes a gate that knows a denial of the store, because another node took everything.
async fn denied() -> (Server, SharedGate, Events) {
    let rules = vec![rule(AlgorithmKind::SlidingLog, 5)];
    let (server, gate, events) = served(rules.clone()).await;
    let (other, _) = gate_over(&server.url(), rules).await;
    assert!(check(&other, "ada", 5).await.is_allowed());
    assert!(!check(&gate, "ada", 2).await.is_allowed());
    (server, gate, events)
}

fn wait(answer: &Answer<'_>) -> u64 {
    Micros::from(answer.retry_after().unwrap()).as_secs_ceil()
}

#[tokio::test]
async fn what_the_store_denied_is_not_admitted_out_of_a_nodes_share_either() {
    let (mut server, gate, events) = denied().await;
    lose(&mut server, &gate, &events).await;
    for cost in [2, 5] {
        let answer = check(&gate, "ada", cost).await;
        assert!(!answer.is_allowed() && answer.is_degraded() && !answer.is_unavailable());
        assert!((86_000..=86_400).contains(&wait(&answer)), "{answer:?}");
        assert_eq!(answer.remaining(), Some(1), "less than what was denied");
    }
    assert!(check(&gate, "ada", 6).await.is_never());
    assert!(check(&gate, "ada", 0).await.is_allowed());
    assert!(check(&gate, "ada", 1).await.is_allowed(), "of one unit nothing is known");
    assert!(check(&gate, "bob", 5).await.is_allowed());
}

#[tokio::test]
async fn a_denial_is_forgotten_with_a_reset_and_with_what_is_given_back() {
    for is_reset in [true, false] {
        let (mut server, gate, events) = denied().await;
        let two = Descriptor::new(&[("user", "ada")]).cost(2);
        if is_reset {
            gate.reset(two).await.unwrap();
        } else {
            drop(gate.refund(two).await.unwrap());
        }
        lose(&mut server, &gate, &events).await;
        assert!(check(&gate, "ada", 2).await.is_allowed());
    }
}
