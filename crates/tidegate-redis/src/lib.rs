//! A part of the crate `tidegate`: the store inside Redis or Valkey, where each decision is one script that runs as one
//! step. Depend on `tidegate`, which exports what a program needs of it. The API of this crate carries no promise: it may
//! change in any version.
//!
//! It knows no gate, no layer and no other store.

mod audit;
mod client;
mod counts;
mod direct;
mod dispatch;
mod error;
mod inbox;
mod keys;
mod link;
mod nodes;
mod route;
pub mod script;
mod steps;

use tidegate_rules::{clock, key, request, rules, secret_file, settings};
use tidegate_store::{contract as store, step};

pub use client::Client;
pub use keys::{key_of, slot_of};
pub use steps::RedisStore;
