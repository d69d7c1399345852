//! Where the limiters of the keys live.

#[cfg(feature = "redis")]
mod contract;
#[cfg(feature = "redis")]
mod error;
#[cfg(feature = "redis")]
mod event;
#[cfg(test)]
#[cfg(feature = "redis")]
pub(crate) mod fake;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redis")]
mod step;

#[cfg(feature = "redis")]
pub(crate) use contract::{GaveUp, Late, LeaseAsk, LeaseReply, LeaseResult, OnUnitsBack, Store};
#[cfg(feature = "redis")]
pub use error::StoreError;
#[cfg(feature = "redis")]
pub(crate) use event::Observer;
#[cfg(feature = "redis")]
pub use event::StoreEvent;
#[cfg(feature = "redis")]
pub(crate) use step::{
    KeyAsk, LimiterReply, Receipt, StepArgs, StepReply, Verb, at_places, is_report,
};
