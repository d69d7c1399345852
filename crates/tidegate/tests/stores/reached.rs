//! The ways to reach a store: Sentinel, a socket; and finding a new primary.

use crate::server::{Folder, Server, gate_over, path, remaining, rule, until_lost};
use tidegate::AlgorithmKind;
use tidegate::store::Store;

#[tokio::test]
async fn sentinel_names_the_primary_and_after_a_failover_the_new_one() {
    let mut primary = Server::start(&[]);
    let replica = Server::start(&["--replicaof", "127.0.0.1", &primary.port.to_string()]);
    let folder = Folder::new();
    let config = folder.0.join("sentinel.conf");
    let monitored = format!(
        "sentinel monitor main 127.0.0.1 {} 1\nsentinel down-after-milliseconds main 300\n",
        primary.port
    );
    std::fs::write(&config, monitored).unwrap();
    let sentinel = Server::start_sentinel(&config);

    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let (gate, events) = gate_over(&url, vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    assert_eq!(remaining(&gate).await, 9);
    // Waits until the replica has the state, before its primary is stopped.
    while replica.run::<u64>(&["EXISTS", "tidegate:default:token_bucket:ada"]) == 0
        || !knows_replica(&sentinel)
    {
        std::thread::yield_now();
    }
    primary.kill();
    until_lost(&gate, &events).await;
    gate.store().fit().await;
    assert_eq!(remaining(&gate).await, 8, "the new primary goes on from where the old primary was");
    let message: String = replica.run(&["INFO", "replication"]);
    assert!(message.contains("role:master"), "{message}");
}

fn knows_replica(sentinel: &Server) -> bool {
    let known: Vec<redis::Value> = sentinel.run(&["SENTINEL", "REPLICAS", "main"]);
    !known.is_empty()
}

#[tokio::test]
async fn a_socket_and_a_database_of_ones_own() {
    let folder = Folder::new();
    let socket = folder.0.join("redis.sock");
    let server = Server::start(&["--unixsocket", &path(&socket)]);
    let url = format!("unix://{}?db=3", path(&socket));
    let (gate, _) = gate_over(&url, vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    assert_eq!(remaining(&gate).await, 9);
    let (other, _) = gate_over(&server.url(), vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    assert_eq!(remaining(&other).await, 9, "another database, another limiter");
    let (same, _) =
        gate_over(&format!("{}/3", server.url()), vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    assert_eq!(remaining(&same).await, 8);
}
