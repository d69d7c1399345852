//! The scripts inside a real Redis, held to the core.
#![cfg(all(feature = "redis", not(loom)))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod batch;
mod each;
mod from_request;
mod given_back;
mod giving_back;
mod leases;
mod lowered;
mod permits;
mod revisions;
mod script;
mod server;
mod several;
mod undo;
mod values;
mod versions;
mod walk;
mod walk_batch;
mod walk_log;
