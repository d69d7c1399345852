//! Stores of several servers: a cluster with replicas, and a primary that a Sentinel watches.

use super::{Folder, Server};

/// The time that a node of a cluster may be silent before the others count it as dead.
const SILENT_MS: &str = "1500";

/// The primaries of a cluster, with equal parts of the slots, then the replicas of each.
pub struct Nodes {
    pub all: Vec<Server>,
    primaries: usize,
}

impl Nodes {
    /// Starts the nodes, and waits until each knows all others and every replica has its primary's data.
    pub fn start(primaries: usize, replicas_of_each: usize) -> Self {
        Self::start_in(primaries, replicas_of_each, |_| Vec::new())
    }

    /// Starts the nodes, each with its own environment.
    pub fn start_in(
        primaries: usize,
        replicas_of_each: usize,
        environment: impl Fn(usize) -> Vec<(String, String)>,
    ) -> Self {
        let words = ["--cluster-enabled", "yes", "--cluster-node-timeout", SILENT_MS];
        let count = primaries * (1 + replicas_of_each);
        let all = (0..count).map(|node| Server::start_in(&environment(node), &words)).collect();
        let nodes = Self { all, primaries };
        nodes.share_slots();
        nodes.meet();
        nodes.follow();
        nodes
    }

    fn share_slots(&self) {
        let begin_of = |part: usize| (part * 16_384 / self.primaries).to_string();
        for (place, node) in self.all.iter().take(self.primaries).enumerate() {
            let last = ((place + 1) * 16_384 / self.primaries - 1).to_string();
            node.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", &begin_of(place), &last]);
            // Each primary starts with its own epoch.
            node.run::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(place + 1).to_string()]);
        }
    }

    fn meet(&self) {
        for node in &self.all {
            node.run::<()>(&["CONFIG", "SET", "cluster-announce-ip", "127.0.0.1"]);
        }
        let known = format!("cluster_known_nodes:{}", self.all.len());
        let knows_all = |node: &Server| {
            let message: String = node.run(&["CLUSTER", "INFO"]);
            message.contains("cluster_state:ok") && message.contains(&known)
        };
        // On a busy machine nodes give up a handshake, and do not begin another by themselves.
        while !self.all.iter().all(knows_all) {
            for node in &self.all {
                self.all[0].run::<()>(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string()]);
            }
            (0..10).for_each(|_| pause());
        }
    }

    fn follow(&self) {
        for (place, replica) in self.all.iter().enumerate().skip(self.primaries) {
            replica.run::<()>(&["CLUSTER", "REPLICATE", &self.id(place % self.primaries)]);
        }
        for replica in &self.all[self.primaries..] {
            until(replica, &["INFO", "replication"], |message| {
                message.contains("master_link_status:up")
            });
        }
        self.until(0, |message| message.contains("cluster_state:ok"));
    }

    /// Waits until `says` is true of every node's `CLUSTER INFO`, without the first `leaving_out` nodes.
    pub fn until(&self, leaving_out: usize, says: impl Fn(&str) -> bool) {
        for node in &self.all[leaving_out..] {
            until(node, &["CLUSTER", "INFO"], &says);
        }
    }

    pub fn id(&self, node: usize) -> String {
        self.all[node].run(&["CLUSTER", "MYID"])
    }

    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.all.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    pub fn slot(&self, key: &str) -> usize {
        self.all[0].run(&["CLUSTER", "KEYSLOT", key])
    }

    /// Returns the primary that had a slot at the start.
    pub fn holder(&self, slot: usize) -> usize {
        (0..self.primaries).find(|place| slot < (place + 1) * 16_384 / self.primaries).unwrap()
    }

    /// Returns a user whose key, which begins so, is on this primary.
    pub fn user_on(&self, primary: usize, key: &str) -> String {
        let is_there = |user: &String| self.holder(self.slot(&format!("{key}{user}"))) == primary;
        (0..).map(|number| format!("{number}")).find(is_there).unwrap()
    }

    /// Moves a slot and all keys in it, as `redis-cli --cluster reshard` does.
    pub fn migrate(&self, slot: usize, from: usize, to: usize) {
        let way = self.way(slot, from, to);
        way.begin();
        way.carry();
        way.end();
    }

    /// The way of a slot from one primary to another.
    pub fn way(&self, slot: usize, from: usize, to: usize) -> Way<'_> {
        let [from, to] = [from, to].map(|node| (&self.all[node], self.id(node)));
        Way { slot: slot.to_string(), from, to }
    }

    /// The way of the slot of this key, of two primaries, to the other primary.
    pub fn way_of(&self, key: &str) -> Way<'_> {
        let from = self.holder(self.slot(key));
        self.way(self.slot(key), from, 1 - from)
    }
}

/// Moves a slot with its keys, step by step. A node has an id.
pub struct Way<'c> {
    pub slot: String,
    pub from: (&'c Server, String),
    pub to: (&'c Server, String),
}

impl Way<'_> {
    /// Marks the slot as moving on both nodes; the keys stay.
    pub fn begin(&self) {
        let Self { slot, from: (old, old_id), to: (new, new_id) } = self;
        new.run::<()>(&["CLUSTER", "SETSLOT", slot, "IMPORTING", old_id]);
        old.run::<()>(&["CLUSTER", "SETSLOT", slot, "MIGRATING", new_id]);
    }

    /// Moves the keys to their new node, and not yet the slot.
    pub fn carry(&self) {
        let (old, port) = (self.from.0, self.to.0.port.to_string());
        loop {
            let keys: Vec<String> = old.run(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "10"]);
            if keys.is_empty() {
                return;
            }
            let mut move_all = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            move_all.extend(keys.iter().map(String::as_str));
            old.run::<String>(&move_all);
        }
    }

    pub fn end(&self) {
        for node in [self.to.0, self.from.0] {
            node.run::<()>(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.to.1]);
        }
    }
}

/// Waits until `says` is true of a server's reply.
///
/// A server that changes its role closes connections: then it is asked again.
pub fn until(server: &Server, words: &[&str], says: impl Fn(&str) -> bool) {
    loop {
        match server.ask::<String>(words) {
            Ok(answer) if says(&answer) => return,
            Err(error) if !error.is_connection_dropped() => panic!("{words:?}: {error}"),
            _ => pause(),
        }
    }
}

/// Leaves the processor to the servers.
fn pause() {
    std::thread::park_timeout(std::time::Duration::from_millis(5));
}

/// A primary, its replica, and the Sentinel that watches them.
pub struct Watched {
    pub primary: Server,
    pub replica: Server,
    pub sentinel: Server,
    _folder: Folder,
}

impl Watched {
    /// Waits until the Sentinel knows both, and the replica has its primary's data.
    pub fn start() -> Self {
        let primary = Server::start(&[]);
        let replica = Server::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
        until(&replica, &["INFO", "replication"], |message| {
            message.contains("master_link_status:up")
        });
        let folder = Folder::new();
        let file = folder.0.join("sentinel.conf");
        let watched = format!("sentinel monitor main 127.0.0.1 {} 1\n", primary.port);
        let at_once = "sentinel down-after-milliseconds main 500\n";
        std::fs::write(&file, watched + at_once).unwrap();
        let sentinel = Server::start_sentinel(&file);
        let replicas =
            || sentinel.run::<Vec<redis::Value>>(&["SENTINEL", "REPLICAS", "main"]).len();
        while replicas() == 0 {
            pause();
        }
        Self { primary, replica, sentinel, _folder: folder }
    }

    pub fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/main", self.sentinel.port)
    }
}
