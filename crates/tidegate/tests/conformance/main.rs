//! One kit of behaviours, run over every store and limiter type.
//!
//! A behaviour is a function over a subject. It has a module of its name with one test for each kind of subject, which
//! goes through all algorithms: `one_key::reservations_are_settled_even_into_debt::redis`.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::result_large_err,
    reason = "a test fails by panicking, and a refusal is an answer"
)]

mod bans;
mod caps;
mod changed_values;
mod giving_back;
mod held;
mod ids;
mod ids_by_time;
mod kit;
mod models;
mod one_key;
#[path = "../common/packed/mod.rs"]
mod packed;
#[path = "../common/plans.rs"]
mod plans;
mod races;
mod races_of_several;
mod reported;
#[cfg(feature = "redis")]
#[path = "../stores/server/mod.rs"]
mod server;
mod several;
mod several_walk;
mod subjects;
#[path = "../common/tasks/mod.rs"]
mod tasks;
mod waiting;
mod walk;
