//! The store inside Redis or Valkey: each decision is one script, which runs there as one step.

mod audit;
mod client;
mod counts;
mod dispatch;
mod error;
mod inbox;
mod keys;
mod link;
mod nodes;
mod route;
pub mod script;
mod steps;

pub(crate) use client::{Client, heard};
pub(crate) use counts::RequestCounts;
pub(crate) use inbox::{LateReply, NoReply, Replied};
pub use keys::slot_of;
pub(crate) use keys::{answer_key, key_in, key_of, key_of_rule, lease_key, record_key};
pub(crate) use route::{Delivered, Route};
pub use steps::RedisStore;
