//! The scripts inside a real Redis, held to the core.
#![cfg(all(feature = "redis", not(loom)))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod batch;
mod carried;
mod changed_values;
mod each;
mod given_back;
mod giving_back;
mod leases;
mod permits;
mod script;
mod server;
mod several;
mod walk;
mod walk_batch;
mod walk_log;
