//! Where the limiters of the keys live.

#[cfg(feature = "redis")]
mod contract;
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
pub(crate) use step::{KeyAsk, LimiterReply, StepArgs, StepReply, Verb, at_places, is_report};
