//! Shapers: the queue, receivers, workers, tokio, and walks next to a model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod amend;
#[cfg(feature = "tokio")]
mod on_tokio;
mod queue;
mod receive;
mod tasks;
mod walk;
mod workers;
