//! A store that is a cluster: rules whose keys share a slot, and slots that move while they are asked.

use crate::server::{Events, Server, check, gate_over, rule, settings};
use std::time::Duration;
use tidegate::{AlgorithmKind, Descriptor, Policy, Request, RuleSpec, SharedGate, Spec};

/// Two primaries, each with half of the slots.
pub(crate) struct Cluster(pub(crate) [Server; 2]);

impl Cluster {
    pub(crate) fn start() -> Self {
        let node =
            || Server::start(&["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]);
        let cluster = Self([node(), node()]);
        let [one, two] = &cluster.0;
        one.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
        two.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
        one.run::<()>(&["CONFIG", "SET", "cluster-announce-ip", "127.0.0.1"]);
        one.run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &two.port.to_string()]);
        let agreed = |node: &Server| {
            let info: String = node.run(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains("cluster_size:2")
        };
        while !cluster.0.iter().all(agreed) {
            std::thread::yield_now();
        }
        cluster
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", self.0[0].port, self.0[1].port)
    }

    /// Returns a handle to move this key to the other node.
    pub(crate) fn way_of<'c>(&'c self, key: &'c str) -> Way<'c> {
        let (from, to) = self.holder(key);
        let slot = self.0[0].run::<u32>(&["CLUSTER", "KEYSLOT", key]).to_string();
        let (old, new) = (&self.0[from], &self.0[to]);
        Way { key, slot, old, new, old_id: self.id(from), new_id: self.id(to) }
    }

    fn id(&self, node: usize) -> String {
        self.0[node].run(&["CLUSTER", "MYID"])
    }

    /// Returns the indices of the node that holds a key, and of the other node.
    pub(crate) fn holder(&self, key: &str) -> (usize, usize) {
        let slot: u32 = self.0[0].run(&["CLUSTER", "KEYSLOT", key]);
        if slot < 8192 { (0, 1) } else { (1, 0) }
    }
}

/// Moves a key with its slot, step by step.
pub(crate) struct Way<'c> {
    key: &'c str,
    slot: String,
    old: &'c Server,
    new: &'c Server,
    old_id: String,
    new_id: String,
}

impl Way<'_> {
    /// Marks the slot as moving on both nodes; the key stays.
    pub(crate) fn begin(&self) {
        self.new.run::<()>(&["CLUSTER", "SETSLOT", &self.slot, "IMPORTING", &self.old_id]);
        self.old.run::<()>(&["CLUSTER", "SETSLOT", &self.slot, "MIGRATING", &self.new_id]);
    }

    /// Moves the key to its new node, and not yet the slot.
    pub(crate) fn carry(&self) {
        let port = self.new.port.to_string();
        self.old.run::<()>(&["MIGRATE", "127.0.0.1", &port, self.key, "0", "5000"]);
    }

    pub(crate) fn end(&self) {
        for node in [self.new, self.old] {
            node.run::<()>(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.new_id]);
        }
    }
}

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

async fn remaining(gate: &SharedGate, user: &str) -> u64 {
    let answer = check(gate, user, 1).await;
    assert!(!answer.is_degraded(), "{answer:?}");
    answer.reported().unwrap().decision().remaining
}

#[tokio::test]
async fn keys_on_every_node_are_decided_and_none_on_a_wrong_one() {
    let cluster = Cluster::start();
    let (gate, events) = gate_over(&cluster.url(), vec![bucket("a")]).await;
    for round in 0..3 {
        for user in 0..20 {
            assert_eq!(remaining(&gate, &format!("u{user}")).await, 9 - round);
        }
    }
    for user in 0..20 {
        asks_again(&gate, &format!("u{user}")).await;
    }
    assert_eq!(events.seen(), Vec::<String>::new());
    let keys = cluster.0.each_ref().map(|node| node.run::<u64>(&["DBSIZE"]));
    assert!(keys.iter().all(|keys| *keys >= 3), "both nodes hold some: {keys:?}");
}

#[tokio::test]
async fn rules_that_are_tagged_alike_meet_in_one_slot_and_others_are_refused() {
    let cluster = Cluster::start();
    let tagged = ["a", "b"].map(|name| bucket(name).hash_tag("user"));
    let (gate, events) = gate_over(&cluster.url(), tagged.to_vec()).await;
    for user in 0..20 {
        let user = format!("{{u{user}}}");
        assert_eq!(remaining(&gate, &user).await, 9);
        assert_eq!(check(&gate, &user, 1).await.matched().len(), 2);
        asks_again(&gate, &user).await;
    }
    assert_eq!(events.seen(), Vec::<String>::new());
    let apart = Policy::new(["a", "b"].map(bucket).to_vec()).unwrap();
    let refused = SharedGate::new(apart, settings(&cluster.url()), |_| {}).unwrap_err();
    assert!(refused.to_string().contains("rule `a`"), "{refused}");
}

#[tokio::test]
async fn a_slot_that_moves_is_followed_and_nothing_counts_twice() {
    let cluster = Cluster::start();
    let (gate, events) =
        gate_over(&cluster.url(), vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    let key = "tidegate:default:token_bucket:ada";
    assert_eq!(remaining(&gate, "ada").await, 9);

    let way = cluster.way_of(key);
    way.begin();
    assert_eq!(remaining(&gate, "ada").await, 8, "still on the old node");
    way.carry();
    assert_eq!(remaining(&gate, "ada").await, 7, "the old node redirects to the new node");
    way.end();
    assert_eq!(remaining(&gate, "ada").await, 6, "it has moved");
    assert_eq!(remaining(&gate, "ada").await, 5);
    assert_eq!(events.seen(), Vec::<String>::new());
}

#[tokio::test]
async fn one_node_that_is_away_does_not_take_the_other_with_it() {
    let mut cluster = Cluster::start();
    for node in &cluster.0 {
        node.run::<()>(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let (gate, events) = gate_over(&cluster.url(), vec![bucket("a")]).await;
    let user_on = |node: usize| {
        let lives_there =
            |user: &String| cluster.holder(&format!("tidegate:default:a:{user}")).0 == node;
        (0..).map(|number| format!("u{number}")).find(lives_there).unwrap()
    };
    let (gone, there) = (user_on(1), user_on(0));
    assert_eq!(remaining(&gate, &there).await, 9);
    cluster.0[1].kill();
    for left in (0..8).rev() {
        assert!(check(&gate, &gone, 1).await.is_degraded());
        assert_eq!(remaining(&gate, &there).await, left + 1);
    }
    let answer = events.seen();
    assert_eq!(answer.len(), 1, "one line for the outage: {answer:?}");
    assert!(answer[0].starts_with("8192-16383 lost: "), "{answer:?}");

    cluster.0[1].start_again(&[]);
    while check(&gate, &gone, 0).await.is_degraded() {
        // While one node replies, the cluster as a whole does not count as lost.
        assert!(!check(&gate, &there, 0).await.is_degraded());
    }
    assert_eq!(events.seen()[1..], ["8192-16383 back"]);
}

#[tokio::test]
async fn a_slot_that_moves_to_a_node_that_held_none_is_followed() {
    let cluster = Cluster::start();
    let (gate, events) =
        gate_over(&cluster.url(), vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    let key = "tidegate:default:token_bucket:ada";
    assert_eq!(remaining(&gate, "ada").await, 9);

    let new = Server::start(&["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]);
    cluster.0[0].run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &new.port.to_string()]);
    let id: String = new.run(&["CLUSTER", "MYID"]);
    let all = [&cluster.0[0], &cluster.0[1], &new];
    let knows = |node: &Server, what: &str| node.run::<String>(&["CLUSTER", "INFO"]).contains(what);
    let knows =
        |node: &&Server| knows(node, "cluster_state:ok") && knows(node, "cluster_known_nodes:3");
    while !all.iter().all(knows) {
        std::thread::yield_now();
    }
    let (from, _) = cluster.holder(key);
    let old = &cluster.0[from];
    let slot = old.run::<u32>(&["CLUSTER", "KEYSLOT", key]).to_string();
    new.run::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &cluster.id(from)]);
    old.run::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id]);
    assert_eq!(remaining(&gate, "ada").await, 8, "still on the old node");
    old.run::<()>(&["MIGRATE", "127.0.0.1", &new.port.to_string(), key, "0", "5000"]);
    for left in [7, 6, 5] {
        assert_eq!(remaining(&gate, "ada").await, left, "the new node is in no map yet");
    }
    for node in [&new, old] {
        node.run::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]);
    }
    for left in [4, 3] {
        assert_eq!(remaining(&gate, "ada").await, left, "it has moved");
    }
    assert_eq!(events.seen(), Vec::<String>::new());
}

#[tokio::test]
async fn a_node_is_fit_while_the_slot_that_it_is_looked_at_by_moves_away() {
    let cluster = Cluster::start();
    // Finds keys of checks until each node has been checked with one; their slots start to move.
    let keys: Vec<_> = (0..20).map(|number| format!("tidegate:{{{number}}}?")).collect();
    let first_of = |node| keys.iter().find(|key| cluster.holder(key).0 == node).unwrap();
    for node in 0..2 {
        cluster.way_of(first_of(node)).begin();
    }
    let (gate, events) = gate_over(&cluster.url(), vec![bucket("a")]).await;
    for user in 0..20 {
        assert_eq!(remaining(&gate, &format!("u{user}")).await, 9);
    }
    assert_eq!(events.seen(), Vec::<String>::new());
}

#[tokio::test]
async fn a_node_of_a_cluster_that_the_url_names_as_a_single_server_says_which_url_to_write() {
    let cluster = Cluster::start();
    for node in &cluster.0 {
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
