//! The gate over real stores: reached in every form, shared, slow or unavailable, in a cluster.
#![cfg(all(feature = "redis", not(loom)))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod across;
mod asked_again;
mod away;
mod bans;
mod bounded;
mod changed_values;
#[cfg(target_os = "linux")]
mod clocks;
mod cluster;
mod denial_memory;
mod failover;
mod faults;
mod frozen;
mod full;
mod held;
mod histories;
mod in_turn;
#[cfg(feature = "kit")]
mod kit;
mod late;
#[cfg(feature = "tower")]
mod layer;
mod leases;
mod lost;
mod nodes_seen;
mod overloaded;
mod permits;
mod reached;
mod records;
mod reopened;
mod reported;
mod rights;
mod secured;
mod server;
mod shared;
mod silent;
mod sums;
mod versions;
