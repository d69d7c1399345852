//! Rules in TOML: what is right, what is wrong and what is told of it, and random files.
#![cfg(feature = "config")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod files;
mod pages;
mod random;
mod secrets;
