//! The gate over real stores: shared, slow or unavailable, in a cluster.
#![cfg(all(feature = "redis", not(loom)))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod across;
mod asked_again;
mod bans;
mod bounded;
mod changed_values;
#[cfg(target_os = "linux")]
mod clocks;
mod cluster;
mod denial_memory;
mod direct;
mod faults;
mod held;
mod histories;
#[cfg(feature = "kit")]
mod kit;
#[cfg(feature = "tower")]
mod layer;
mod leases;
mod nodes_seen;
mod permits;
mod planned;
#[path = "../common/plans.rs"]
mod plans;
mod records;
mod rights;
mod secured;
mod server;
mod shared;
mod versions;
mod waiting;
