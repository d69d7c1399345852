//! Gates in memory: which rules a request matches, changed rules, plans, observers, bans and reported usage.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod asks;
mod ban;
mod changed_values;
mod counts;
mod facades;
mod holding;
mod ids;
mod observe;
mod ordered;
#[path = "../common/packed/mod.rs"]
mod packed;
mod permits;
mod planned;
#[path = "../common/plans.rs"]
mod plans;
#[cfg(feature = "json")]
mod recorder;
mod reported;
mod requests;
mod snapshot;
mod snapshot_walk;
mod swept;
#[path = "../common/tasks/mod.rs"]
mod tasks;
