//! Gates in memory: which rules a request matches, changed rules, plans, observers, bans and reported usage.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod amend;
mod amend_walk;
mod ban;
#[path = "../common/changes/mod.rs"]
mod changes;
mod counts;
mod facades;
mod given_back;
mod holding;
mod ids;
mod lowered;
mod lowered_values;
mod observe;
mod ordered;
#[path = "../common/packed/mod.rs"]
mod packed;
mod permits;
mod pitfalls;
#[cfg(feature = "json")]
mod recorder;
mod replace;
mod replace_history;
mod replace_waiting;
mod replace_walk;
mod reported;
mod reports;
mod requests;
mod snapshot;
mod snapshot_walk;
mod swept;
#[path = "../common/tasks/mod.rs"]
mod tasks;
mod values;
mod values_amended;
mod values_walk;
