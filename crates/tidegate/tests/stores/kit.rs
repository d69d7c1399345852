//! The checks of what any store must promise, over Redis and over a cluster.

use tidegate::{Policy, SharedGate, kit};

use crate::server::nodes::Nodes;
use crate::server::{Server, settings};

/// Makes gates over one store; the keys of each space begin in a way of their own.
fn over(url: &str) -> impl Fn(Policy, u64) -> SharedGate {
    let url = url.to_owned();
    move |policy, space| {
        let mut settings = settings(&url);
        settings.key_prefix = format!("kit{space}:");
        SharedGate::new(policy, settings, |_| {}).unwrap()
    }
}

#[tokio::test]
async fn a_server_keeps_every_promise() {
    kit::check_all(over(&Server::start(&[]).url())).await;
}

#[tokio::test]
async fn a_cluster_keeps_every_promise() {
    kit::check_all(over(&Nodes::start(2, 0).url())).await;
}
