//! Rules in TOML: correct files, incorrect files with their messages, and random files.
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
