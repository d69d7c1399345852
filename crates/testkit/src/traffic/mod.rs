//! Random rules and traces: seeded, so that a failure is a number anyone can repeat.
//!
//! ```
//! use testkit::{model::AlgorithmKind, traffic};
//!
//! let mut rng = traffic::Rng::new(7);
//! let policy = traffic::policy(&mut rng, AlgorithmKind::TokenBucket);
//! let trace = traffic::trace(&mut rng, &policy, 100);
//! assert_eq!(trace.len(), 100);
//! assert!(trace.is_sorted_by_key(|(at_us, _cost)| *at_us));
//! ```

mod policy;
mod rng;
mod trace;

pub use policy::policy;
pub use rng::Rng;
pub use trace::{jumpy_trace, trace};
