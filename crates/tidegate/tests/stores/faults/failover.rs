//! Failover and moving slots while 64 tasks ask: counts the units admitted over a limit.
//!
//! A primary that dies loses the writes that its replicas do not have yet. The node carries what it knows of them.

use std::time::Duration;

use tidegate::RuleSpec;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use crate::faults::{lasting, none_over_unless_ahead, under_load};
use crate::server::load::rules;
use crate::server::nodes::{Nodes, Watched, until};
use crate::server::records::OwnValues;

fn none_over(values: &OwnValues) {
    assert!(values.degraded > 0, "{values:?}");
    none_over_unless_ahead(values);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_puts_a_replica_in_the_place_of_a_dead_primary() {
    let mut watched = block_in_place(Watched::start);
    let url = watched.url();
    let values = under_load(&url, rules(), "Sentinel: primary `kill -9`", async || {
        watched.primary.kill();
        let primary = |message: &str| message.contains("role:master");
        block_in_place(|| until(&watched.replica, &["INFO", "replication"], primary));
    })
    .await;
    none_over(&values);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_puts_a_replica_in_the_place_of_a_dead_primary() {
    replaced("cluster, 3 + 3: primary `kill -9`", false).await;
}

/// Causes a fault of the first primary, waits until its replica is in its place, and lets the old primary go on if it only
/// stopped.
async fn replaced(message: &str, stops: bool) {
    let mut nodes = block_in_place(|| Nodes::start(3, 1));
    let url = nodes.url();
    let values = under_load(&url, rules(), message, async || {
        if stops {
            nodes.all[0].signal("STOP");
        } else {
            nodes.all[0].kill();
        }
        let failed = |message: &str| message.contains("cluster_state:fail");
        let well = |message: &str| message.contains("cluster_state:ok");
        block_in_place(|| {
            until(&nodes.all[1], &["CLUSTER", "INFO"], failed);
            nodes.until(1, well);
        });
        if stops {
            nodes.all[0].signal("CONT");
        }
    })
    .await;
    none_over(&values);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_primary_stops_goes_on_without_it_and_does_not_ask_it_when_it_is_back() {
    replaced("cluster, 3 + 3: primary SIGSTOP", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_loses_nothing() {
    let nodes = block_in_place(|| Nodes::start(3, 1));
    let values = under_load(&nodes.url(), rules(), "cluster: CLUSTER FAILOVER", async || {
        let replica = &nodes.all[3];
        replica.run::<()>(&["CLUSTER", "FAILOVER"]);
        let primary = |message: &str| message.contains("role:master");
        block_in_place(|| until(replica, &["INFO", "replication"], primary));
    })
    .await;
    assert_eq!(values.over, 0, "{values:?}");
}

/// Rules whose keys are all in one slot.
fn in_one_slot() -> Vec<RuleSpec> {
    rules().into_iter().map(|rule| rule.key(["user", "place"]).hash_tag("place")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_to_and_fro_under_load_counts_nothing_twice() {
    // Without replicas, only this test decides which node holds a slot.
    let nodes = block_in_place(|| Nodes::start(3, 0));
    let slot = nodes.slot("{=here}");
    let home = nodes.holder(slot);
    let values = under_load(&nodes.url(), in_one_slot(), "cluster: a slot moves", async || {
        let ends = Instant::now() + lasting();
        while Instant::now() < ends {
            let away = (home + 1) % 3;
            block_in_place(|| nodes.migrate(slot, home, away));
            sleep(Duration::from_millis(20)).await;
            block_in_place(|| nodes.migrate(slot, away, home));
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(values.over, 0, "{values:?}");
}
