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
#[cfg(all(test, not(loom)))]
mod growth;
mod hall;
mod lines;
#[cfg(all(test, loom))]
mod models;
mod permits;
mod places;
mod queue;
mod sync;
mod turn;
mod wish;

pub use concurrency::{Concurrency, KeyedConcurrency};
#[cfg(feature = "redis")]
pub(crate) use door::refuse_behind;
pub(crate) use door::{AtHand, Door, Patience, Single, Source, Stop, step_behind};
#[cfg(feature = "redis")]
pub(crate) use drive::Progress;
#[cfg(feature = "tower")]
pub(crate) use drive::wait_until;
pub(crate) use drive::{hold, hold_blocking, wait, wait_blocking, wait_in_line};
pub(crate) use lines::{LineKey, Lines};
pub use permits::Permit;
#[cfg(feature = "redis")]
pub(crate) use queue::Ticket;
#[cfg(feature = "redis")]
pub(crate) use turn::Turn;

/// Most that wait for one limiter unless it is said otherwise.
pub(crate) const DEFAULT_MAX_WAITERS: usize = 1_024;
