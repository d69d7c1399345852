//! Rules: which limiters a request has.
//!
//! A `RuleSpec` is a rule as written, a `PolicyRule` is a checked rule, and a `Policy` finds the rules of a request.

mod amend;
mod attached;
mod causes;
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

pub use amend::{AmendError, Amendment, refused, with_values};
pub use causes::{ErrorPosition, causes};
pub use choices::{
    MAX_WAITERS_EXPECTED, MOST_MAX_WAITERS, OnExcess, OnFull, OnNoRule, OnStoreError, Usage,
    WAIT_EXPECTED,
};
pub use error::{Place, PolicyError, PolicyErrors, Problem};
pub use lease::{LEASE_MAX_EXPECTED, LIFE_EXPECTED, LeaseSpec, most_leased};
pub use near::{Near, is_near};
pub use no_such_rule::{NoSuchRule, no_such_rule};
pub use override_spec::OverrideSpec;
pub use own_limit::limit_of;
pub use policy::{Policy, PolicyInternals, ResetField};
pub use rule::{PolicyRule, RuleInternals, rule_of_values};
pub use spec::{
    MAX_KEYS_EXPECTED, MOST_MAX_KEYS, Mode, RuleSpec, UP_TO_A_DAY_EXPECTED, most_bytes, most_keys,
};
