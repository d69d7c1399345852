//! The algorithms of every limiter, as pure functions of a rule, a state and a time.
//!
//! This crate reads no clock, does no IO, uses no floating-point numbers and no unsafe code, and
//! allocates only for states that grow. Time is an argument ([`Timestamp`], integer microseconds).
//! A limiter is a checked [`Rule`], built from a [`Spec`], and a state that a few verbs change
//! ([`Algorithm`]).
//!
//! Every store of the project (memory, shared, replay) runs these same verbs, so all of them decide
//! alike.
//!
//! ```
//! use std::time::Duration;
//! use tidegate_core::{AlgorithmKind, Held, Algorithm, Rule, Spec, Timestamp, Verdict, Visitor};
//!
//! /// Decides three requests of one unit each, at 0, 1 and 2 ms.
//! struct Three;
//! impl Visitor for Three {
//!     type Out = Vec<Verdict>;
//!     fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
//!         let mut slot = None;
//!         (0..3)
//!             .map(|ms| Held::new(algorithm, &mut slot, 1).ask(Timestamp::from_micros(ms * 1_000)))
//!             .collect()
//!     }
//! }
//!
//! let rule = Rule::new(Spec::new(AlgorithmKind::SlidingLog, 2, Duration::from_secs(1)))?;
//! let verdicts = rule.visit(Three).unwrap_or_default();
//! assert_eq!(verdicts, [Verdict::Allow, Verdict::Allow, Verdict::Deny]);
//! # Ok::<(), tidegate_core::RuleErrors>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[macro_use]
mod debug_as_display;

mod algorithm;
mod algorithms;
mod carry;
mod decide;
mod decision;
mod error;
mod field;
mod held;
mod lease;
mod level;
mod packing;
mod past;
mod rates;
mod rule;
mod script;
mod scripted;
mod spec;
#[doc(hidden)]
pub mod text;
mod time;

pub use algorithm::{
    Algorithm, Amend, CarryUnits, Decide, HORIZON, Lease, Pack, Packing, Persist, Scripted,
};
pub use algorithms::{
    AlgorithmKind, Closed, Concurrency, FixedWindow, LeakyQueue, SlidingCounter, SlidingLog,
    SlidingWindow, TokenBucket, guides,
};
pub use carry::{KnownUnits, UsedUnits};
pub use decision::{Decision, Outcome, Rejected, Verdict};
pub use error::{RuleError, RuleErrors};
pub use field::Field;
pub use held::{Held, Settled, Settlement};
pub use lease::Leasable;
pub use past::{Past, Since};
pub use rates::Rates;
pub use rule::{Rule, Visitor};
pub use script::{MULDIV, Script, ScriptInput, ScriptReply};
pub use spec::{Anchor, Layout, Limit, MAX_COST, MAX_LIMIT, MAX_WINDOW, MIN_WINDOW, Spec};
pub use text::ValueError;
pub use time::{Micros, Shown, Timestamp, Token, is_whole};
