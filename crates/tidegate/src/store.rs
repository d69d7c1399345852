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
pub(crate) use contract::{
    GaveUp, KeyAsk, Late, LeaseAsk, LeaseReply, LeaseResult, LimiterReply, OnUnitsBack, StepArgs,
    StepReply, Store, Verb, at_places, is_report,
};
