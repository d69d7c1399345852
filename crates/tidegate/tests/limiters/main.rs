//! Limiters in memory, alone and by key: caps, growth, plans, clocks that run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bounded;
mod caps;
mod growth;
mod late_reading;
mod options;
#[path = "../common/packed/mod.rs"]
mod packed;
mod plans;
mod races;
mod reserve;
