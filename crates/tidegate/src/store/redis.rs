//! The store inside Redis or Valkey: each decision is one script, which runs there as one step.

mod audit;
mod breaker;
mod client;
mod error;
mod event;
mod keys;
mod link;
mod moves;
mod newcomers;
mod nodes;
mod probe;
pub mod script;
mod shards;

pub use audit::Finding;
pub(crate) use client::Client;
pub use error::StoreError;
pub use event::StoreEvent;
pub(crate) use keys::{answer_key, key_in, key_of, slot_of};
pub(crate) use nodes::Listed;
