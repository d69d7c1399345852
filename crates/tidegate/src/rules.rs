//! Rules: which limiters a request has.
//!
//! A `RuleSpec` is a rule as written, a `PolicyRule` is a checked rule, and a `Policy` finds the rules of a request.

mod amend;
mod attached;
mod check;
mod choices;
mod error;
mod index;
mod lease;
mod near;
mod no_such_rule;
mod override_spec;
mod own_limit;
mod policy;
mod rule;
mod spec;
mod stored;

pub(crate) use amend::refused;
pub use amend::{AmendError, Amendment};
#[cfg(feature = "config")]
pub(crate) use choices::{MAX_WAITERS_EXPECTED, MOST_MAX_WAITERS, WAIT_EXPECTED};
pub use choices::{OnExcess, OnFull, OnNoRule, OnStoreError, Usage};
pub use error::{Place, PolicyError, PolicyErrors, Problem};
pub use lease::LeaseSpec;
#[cfg(feature = "config")]
pub(crate) use lease::{LEASE_MAX_EXPECTED, LIFE_EXPECTED};
pub use near::Near;
pub use no_such_rule::NoSuchRule;
pub use override_spec::OverrideSpec;
#[cfg(feature = "redis")]
pub(crate) use own_limit::limit_of;
pub use policy::{Policy, ResetField};
pub use rule::PolicyRule;
#[cfg(feature = "config")]
pub(crate) use spec::{MAX_KEYS_EXPECTED, MOST_MAX_KEYS, UP_TO_A_DAY_EXPECTED};
pub use spec::{Mode, RuleSpec};
