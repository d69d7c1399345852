//! A frozen primary of a cluster: its own keys are decided without the store, and the others by the store. A store that
//! is frozen when a gate starts.
//!
//! With `TIDEGATE_LONG=1` the deadline is the default one, and the rows are the rows of `bench/results/faults.md`. By default
//! the deadline is so long that no machine misses it, so no request for a healthy primary may be late.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate::store::Store;
use tidegate::{Descriptor, Request, SharedGate};
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use crate::faults::{closed, while_it_lasts};
use crate::server::load::{Load, algorithm_of, rules};
use crate::server::nodes::Nodes;
use crate::server::records::{OwnValues, Record};
use crate::server::{LONG, Server, defaults, long, unconnected};

/// The index of the frozen primary.
const FROZEN: usize = 2;

/// The time for which only its keys are asked for, before the others: longer than it may be silent.
const ALONE: Duration = Duration::from_millis(3_600);

/// Starts three primaries; each goes on while another is unavailable.
fn cluster() -> Nodes {
    let nodes = Nodes::start(3, 0);
    for node in &nodes.all {
        node.run::<()>(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    nodes
}

fn gate(nodes: &Nodes) -> Arc<SharedGate> {
    let url = nodes.url();
    let timeout = if long() { defaults(&url).timeout } else { Duration::from_millis(500) };
    Arc::new(new_gate(&url, timeout))
}

/// Returns the primary that holds a key of the load.
fn holder(nodes: &Nodes, key: u64) -> usize {
    let algorithm = algorithm_of(key).name();
    nodes.holder(nodes.slot(&format!("tidegate:{algorithm}:{algorithm}:k{key}")))
}

/// Asks for one key of the load until `such` returns true for whether the answer is degraded.
async fn ask_until(gate: &SharedGate, key: u64, such: impl Fn(bool) -> bool) {
    let user = format!("k{key}");
    let entries = [("user", user.as_str()), ("place", "here")];
    let descriptors = [Descriptor::new(&entries).cost(0)];
    let request = Request::new(algorithm_of(key).name(), &descriptors);
    while !such(gate.check(&request).await.is_degraded()) {
        sleep(Duration::from_millis(4)).await;
    }
}

/// Asks while the primary is frozen and until it replies again. Returns the values of its keys, and of the
/// others.
async fn drive(nodes: &Nodes, gate: Arc<SharedGate>, message: &str) -> [OwnValues; 2] {
    // A key that the load does not reach.
    let key = (1_000_000..).find(|key| holder(nodes, *key) == FROZEN).unwrap();
    let alone = Instant::now() + ALONE;
    ask_until(&gate, key, |_| Instant::now() >= alone).await;
    let load = Load::begin(Arc::clone(&gate), false);
    while_it_lasts().await;
    let lifted = Instant::now();
    nodes.all[FROZEN].signal("CONT");
    ask_until(&gate, key, |degraded| !degraded).await;
    load.more_exact(1_000).await;
    let mut holders = BTreeMap::new();
    let is_own = |record: &Record| {
        *holders.entry(record.key).or_insert_with(|| holder(nodes, record.key)) == FROZEN
    };
    let (own, others): (Vec<_>, Vec<_>) = load.end().await.into_iter().partition(is_own);
    [(own, "its keys"), (others, "other keys")].map(|(records, whose)| {
        let values = OwnValues::of(&records, lifted);
        values.tell(&format!("{message}: {whose}"));
        assert_eq!(values.over, 0, "{message}, {whose}: {values:?}");
        values
    })
}

/// Asserts that the other keys are not affected.
fn is_apart([own, others]: &[OwnValues; 2]) {
    assert!(own.degraded > 0, "{own:?}");
    assert!(long() || others.degraded == 0, "{} of {}", others.degraded, others.requests);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_primary_takes_no_other_with_it() {
    let nodes = block_in_place(cluster);
    let gate = gate(&nodes);
    gate.store().connected().await.unwrap();
    nodes.all[FROZEN].signal("STOP");
    is_apart(&drive(&nodes, gate, "cluster: shard frozen").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_started_while_a_primary_is_frozen_is_exact_for_the_others() {
    let nodes = block_in_place(cluster);
    nodes.all[FROZEN].signal("STOP");
    is_apart(&drive(&nodes, gate(&nodes), "cluster: started while a shard is frozen").await);
}

/// Makes a gate that was not given the time to reach its store.
fn new_gate(url: &str, timeout: Duration) -> SharedGate {
    let mut settings = defaults(url);
    settings.timeout = timeout;
    unconnected(settings, closed(rules()))
}

async fn is_degraded(gate: &SharedGate) -> bool {
    let descriptors = [Descriptor::new(&[("user", "ada"), ("place", "here")])];
    gate.check(&Request::new(algorithm_of(0).name(), &descriptors)).await.is_degraded()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_is_started_while_its_store_is_frozen_does_not_wait_for_the_first_check_of_it()
{
    let (server, nodes) = (Server::start(&[]), block_in_place(cluster));
    for (url, frozen) in [(server.url(), vec![&server]), (nodes.url(), nodes.all.iter().collect())]
    {
        frozen.iter().for_each(|server| server.signal("STOP"));
        let gate = new_gate(&url, Duration::from_millis(20));
        tokio::select! {
            biased;
            found = gate.store().connected() => panic!("{url}: no request was answered until {found:?}"),
            degraded = is_degraded(&gate) => assert!(degraded, "{url}"),
        }
        frozen.iter().for_each(|server| server.signal("CONT"));
        gate.store().fit().await;
        let long = new_gate(&url, LONG);
        assert!(!is_degraded(&long).await, "{url}: it is exact without a wait for `connected`");
    }
}
