//! Statistics: by example, under threads, and next to a naive model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod decided;
mod examples;
mod model;
mod races;
mod walk;
