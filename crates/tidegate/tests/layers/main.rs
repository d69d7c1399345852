//! The layer in front of a service: real servers over loopback, waiting, outcomes, outgoing.
#![cfg(feature = "tower")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod by_key;
mod bytes;
mod common;
mod holding;
#[cfg(feature = "axum")]
mod in_axum;
mod in_hyper;
#[cfg(feature = "reqwest")]
mod in_reqwest;
#[cfg(feature = "tonic")]
mod in_tonic;
mod outcome;
mod outgoing;
mod per_ip;
mod permits;
mod planned;
mod service;
mod waiting;
