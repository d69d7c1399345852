//! Waiting its turn: changed rules, several lines at a gate, threads, tasks, permits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod gate;
mod ids;
mod in_flight;
mod limiter;
#[cfg(feature = "tokio")]
mod on_tokio;
#[path = "../common/packed/mod.rs"]
mod packed;
mod plans;
#[path = "../common/tasks/mod.rs"]
mod tasks;
mod threads;
