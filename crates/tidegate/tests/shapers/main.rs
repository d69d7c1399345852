//! Shapers: the queue, receivers, workers, tokio, and walks next to a model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[cfg(feature = "tokio")]
mod on_tokio;
mod paced;
mod queue;
mod receive;
#[path = "../common/tasks/mod.rs"]
mod tasks;
mod walk;
mod workers;
