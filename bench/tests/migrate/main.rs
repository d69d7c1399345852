//! The rows of the pages in `docs/migrate`, held against the limiters that they speak of.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod governor;
mod limitador;
mod nginx;
mod redis_cell;
mod tower_governor;
