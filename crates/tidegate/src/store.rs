//! Where the limiters of the keys live.

#[cfg(feature = "redis")]
mod contract;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;

#[cfg(feature = "redis")]
pub(crate) use contract::{
    GaveUp, Granted, KeyAsk, Late, LeaseAsk, LeaseReply, LimiterReply, OnUnitsBack, StepArgs,
    StepReply, Store, Verb, is_report,
};
