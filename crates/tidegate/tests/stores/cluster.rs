//! A store that is a cluster: rules whose keys share a slot, and slots that move while they are asked.

use crate::server::nodes::{Nodes, Way};
use crate::server::{Events, Server, check, gate_over, remaining_of, rule, settings};
use std::time::Duration;
use tidegate::{AlgorithmKind, Descriptor, Policy, Request, RuleSpec, SharedGate, Spec};

fn bucket(name: &str) -> RuleSpec {
    let spec = Spec::new(AlgorithmKind::TokenBucket, 10, Duration::from_secs(86_400));
    RuleSpec::new(name, spec).key(["user"]).dedupe(Duration::from_secs(600))
}

/// Asks twice under one id: the second time returns the first answer, wherever its keys live.
async fn asks_again(gate: &SharedGate, user: &str) {
    let entries = [("user", user)];
    let request = Request::from(Descriptor::new(&entries)).with_id("a").unwrap();
    for repeated in [false, true] {
        let answer = gate.check(&request).await;
        assert!(answer.is_repeated() == repeated && !answer.is_degraded(), "{answer:?}");
    }
}

#[tokio::test]
async fn keys_on_every_node_are_decided_and_none_on_a_wrong_one() {
    let cluster = Nodes::start(2, 0);
    let (gate, events) = gate_over(&cluster.url(), vec![bucket("a")]).await;
    for round in 0..3 {
        for user in 0..20 {
            assert_eq!(remaining_of(&gate, &format!("u{user}")).await, 9 - round);
        }
    }
    for user in 0..20 {
        asks_again(&gate, &format!("u{user}")).await;
    }
    events.assert_none();
    let keys = cluster.all.iter().map(|node| node.run::<u64>(&["DBSIZE"])).collect::<Vec<_>>();
    assert!(keys.iter().all(|keys| *keys >= 3), "both nodes hold some: {keys:?}");
}

#[tokio::test]
async fn rules_that_are_tagged_alike_meet_in_one_slot_and_others_are_refused() {
    let cluster = Nodes::start(2, 0);
    let tagged = ["a", "b"].map(|name| bucket(name).hash_tag("user"));
    let (gate, events) = gate_over(&cluster.url(), tagged.to_vec()).await;
    for user in 0..20 {
        let user = format!("{{u{user}}}");
        assert_eq!(remaining_of(&gate, &user).await, 9);
        assert_eq!(check(&gate, &user, 1).await.matched().len(), 2);
        asks_again(&gate, &user).await;
    }
    events.assert_none();
    let apart = Policy::new(["a", "b"].map(bucket).to_vec()).unwrap();
    let refused = SharedGate::new(apart, settings(&cluster.url()), |_| {}).unwrap_err();
    assert!(refused.to_string().contains("rule `a`"), "{refused}");
}

/// Moves a slot away under requests of its key, each of which counts once.
async fn is_followed((gate, events): (SharedGate, Events), way: Way<'_>) {
    way.begin();
    assert_eq!(remaining_of(&gate, "ada").await, 8, "still on the old node");
    way.carry();
    for left in [7, 6, 5] {
        assert_eq!(
            remaining_of(&gate, "ada").await,
            left,
            "the old node redirects to the new node"
        );
    }
    way.end();
    for left in [4, 3] {
        assert_eq!(remaining_of(&gate, "ada").await, left, "it has moved");
    }
    events.assert_none();
}

/// A gate over a cluster, after the first request of a key.
async fn asked_once(cluster: &Nodes) -> (SharedGate, Events) {
    let rules = vec![rule(AlgorithmKind::TokenBucket, 10)];
    let (gate, events) = gate_over(&cluster.url(), rules).await;
    assert_eq!(remaining_of(&gate, "ada").await, 9);
    (gate, events)
}

const ADA: &str = "tidegate:default:token_bucket:ada";

#[tokio::test]
async fn a_slot_that_moves_is_followed_and_nothing_counts_twice() {
    let cluster = Nodes::start(2, 0);
    is_followed(asked_once(&cluster).await, cluster.way_of(ADA)).await;
}

#[tokio::test]
async fn one_node_that_is_away_does_not_take_the_other_with_it() {
    let mut cluster = Nodes::start(2, 0);
    for node in &cluster.all {
        node.run::<()>(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let (gate, events) = gate_over(&cluster.url(), vec![bucket("a")]).await;
    let user_on = |node| cluster.user_on(node, "tidegate:default:a:");
    let (gone, there) = (user_on(1), user_on(0));
    assert_eq!(remaining_of(&gate, &there).await, 9);
    cluster.all[1].kill();
    for left in (0..8).rev() {
        assert!(check(&gate, &gone, 1).await.is_degraded());
        assert_eq!(remaining_of(&gate, &there).await, left + 1);
    }
    let answer = events.seen();
    assert_eq!(answer.len(), 1, "one line for the outage: {answer:?}");
    assert!(answer[0].starts_with("8192-16383 lost: "), "{answer:?}");

    cluster.all[1].start_again(&[]);
    while check(&gate, &gone, 0).await.is_degraded() {
        // While one node replies, the cluster as a whole does not count as lost.
        assert!(!check(&gate, &there, 0).await.is_degraded());
    }
    assert_eq!(events.seen()[1..], ["8192-16383 back"]);
}

#[tokio::test]
async fn a_slot_that_moves_to_a_node_that_held_none_is_followed() {
    let cluster = Nodes::start(2, 0);
    // The new node is in no map of the gate.
    let asked = asked_once(&cluster).await;
    let new = Server::start(&["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]);
    cluster.all[0].run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &new.port.to_string()]);
    let id: String = new.run(&["CLUSTER", "MYID"]);
    let all = cluster.all.iter().chain([&new]);
    let knows = |node: &Server, what: &str| node.run::<String>(&["CLUSTER", "INFO"]).contains(what);
    let knows =
        |node: &&Server| knows(node, "cluster_state:ok") && knows(node, "cluster_known_nodes:3");
    while !all.clone().all(|node| knows(&node)) {
        std::thread::yield_now();
    }
    let slot = cluster.slot(ADA);
    let from = cluster.holder(slot);
    let old = (&cluster.all[from], cluster.id(from));
    let way = Way { slot: slot.to_string(), from: old, to: (&new, id) };
    is_followed(asked, way).await;
}

#[tokio::test]
async fn a_node_is_fit_while_the_slot_that_it_is_looked_at_by_moves_away() {
    let cluster = Nodes::start(2, 0);
    // Finds keys of checks until each node has been checked with one; their slots start to move.
    let keys: Vec<_> = (0..20).map(|number| format!("tidegate:{{{number}}}?")).collect();
    let first_of =
        |node| keys.iter().find(|key| cluster.holder(cluster.slot(key)) == node).unwrap();
    for node in 0..2 {
        cluster.way_of(first_of(node)).begin();
    }
    let (gate, events) = gate_over(&cluster.url(), vec![bucket("a")]).await;
    for user in 0..20 {
        assert_eq!(remaining_of(&gate, &format!("u{user}")).await, 9);
    }
    events.assert_none();
}

#[tokio::test]
async fn a_node_of_a_cluster_that_the_url_names_as_a_single_server_says_which_url_to_write() {
    let cluster = Nodes::start(2, 0);
    for node in &cluster.all {
        let events = Events::default();
        let policy = Policy::new(vec![rule(AlgorithmKind::TokenBucket, 10)]).unwrap();
        let gate = SharedGate::new(policy, settings(&node.url()), events.observer()).unwrap();
        // The node that has the slot of the check is found out by a key of another slot.
        if gate.store().connected().await.is_ok() {
            for user in 0..50 {
                let _ = check(&gate, &user.to_string(), 1).await;
            }
        }
        events.until(|message| message.contains("expected redis+cluster://host:port")).await;
    }
}
