//! Waiting: first come, first served, for each limiter; bounded, and cancel-safe.
//!
//! Who waits stands in a *line* before one limiter ([`lines`]). Nothing is promised: the head of a
//! line takes its units when they are there, so one who leaves leaves no trace, and all behind move up
//! by themselves. A [`turn`] is one request's way to its answer, a state machine without a clock and
//! without a runtime; [`drive`] lets a task or a thread wait for it. What a turn leads to is a
//! [`door`]: a limiter, the limiter of a key, or all limiters that a request meets at a gate.

mod asking;
mod concurrency;
mod door;
mod drive;
mod gate;
#[cfg(all(test, not(loom)))]
mod growth;
mod hall;
mod keyed;
mod limiter;
mod lines;
#[cfg(all(test, loom))]
mod models;
mod permits;
mod places;
mod planned;
mod queue;
mod renewed;
#[cfg(feature = "redis")]
mod shared;
mod sync;
mod turn;
mod wish;

pub use concurrency::{Concurrency, KeyedConcurrency};
pub(crate) use drive::unparks_this_thread;
#[cfg(feature = "tower")]
pub(crate) use drive::wait_until;
pub(crate) use gate::GateLines;
pub(crate) use lines::Lines;
pub use permits::Permit;

/// Most that wait for one limiter unless it is said otherwise.
pub(crate) const DEFAULT_MAX_WAITERS: usize = 1_024;
