//! The stores of limiters, and the contract of a store of your own.
//!
//! A [`SharedGate`](crate::SharedGate) decides over any [`Store`]: Redis or Valkey unless it is made
//! [over another](crate::SharedGate::over). The layers between the gate and the store (decisions while the store is
//! away, leases, remembered denials, requests over several slots) are the same over each.
//!
//! The page `docs/how-to/own-store.md` makes a store, and `tidegate::kit` checks it.
//!
//! A store runs a step over the limiters of a request: all of them or none. [`LimiterState`] has the verbs of every
//! algorithm for a store that keeps states in a process of yours.

#[cfg(feature = "redis")]
mod limiter_state;
pub(crate) mod memory;

#[cfg(feature = "redis")]
use tidegate_core::{Micros, Timestamp};

#[cfg(feature = "redis")]
pub use limiter_state::{LimiterState, LimiterStep};
#[cfg(feature = "redis")]
#[doc(inline)]
pub use tidegate_redis::RedisStore;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use tidegate_store::contract::{
    Finding, GaveUp, Generation, GivenBack, Hooks, Host, KeyAsk, Late, LeaseAsk, LeaseReply,
    LeaseResult, LimiterReply, LimiterReport, Receipt, RecordReply, RecordVerb, ReturnReply,
    StepArgs, StepReply, Store, StoreCounts, StoreError, StoreEvent, Unspent, Verb, Wanted,
};
#[cfg(feature = "redis")]
pub(crate) use tidegate_store::contract::{
    KnownUse, LimiterPlaces, OnEvent, OnUnitsBack, StoredData, at_places, done_in_part, is_report,
};
#[cfg(feature = "redis")]
#[doc(inline)]
pub use tidegate_store::step::{Ask, AskKind, TakenUnits};

/// A time that is earlier by as much does not order replies: the clock of the store was set back.
#[cfg(feature = "redis")]
const CLOCK_WAS_SET: Micros = Micros::from_millis(1_000);

/// Returns whether a reply that was decided at `at`, by the store's clock, was overtaken by a reply that was decided at
/// `last`.
#[cfg(feature = "redis")]
pub(crate) fn is_overtaken(at: Timestamp, last: Timestamp) -> bool {
    at < last && last.since(at) < CLOCK_WAS_SET
}

#[cfg(test)]
#[cfg(feature = "redis")]
pub(crate) mod fake;

#[cfg(test)]
#[cfg(feature = "redis")]
pub(crate) use tidegate_store::contract::{RuleInForce, stand_still};
