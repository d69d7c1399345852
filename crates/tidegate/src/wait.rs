//! Waiting for limiters: in order of arrival, bounded, and safe to cancel.
//!
//! A waiter stands in a *queue* in front of one limiter ([`queues`]). It has no reservation: the head of a queue
//! takes its units when they are available, so a waiter that leaves changes nothing, and later waiters move up. A
//! [`waiter`] is a state machine without a clock and without a runtime, for which a task or a thread can wait. A
//! [`waitable`] is what the waiter needs to pass: one limiter, the limiter of a key, all limiters of a request, or
//! permits.
//!
//! Every verb of a limiter comes through here, also if its caller does not wait: it must not overtake a caller that
//! does. [`call`] is one verb of one limiter; gates have waitables of their own. [`queue`] and [`places`] hold the
//! waiters of one limiter in order, [`drive`] sleeps between two attempts, and [`permits`] counts work in flight
//! for [`concurrency`].

mod call;
mod concurrency;
mod drive;
mod permits;
mod places;
mod queue;
mod queues;
mod waitable;
mod waiter;

pub(crate) use call::{LimiterCall, LimiterSource};
pub use concurrency::{Concurrency, KeyedConcurrency};
pub(crate) use drive::Alarm;
#[cfg(feature = "redis")]
pub(crate) use drive::AttemptResult;
#[cfg(feature = "tower")]
pub(crate) use drive::wait_until;
pub use permits::Permit;
#[cfg(feature = "redis")]
pub(crate) use places::{Sums, Ticket};
pub(crate) use queues::{QueueKey, Queues};
#[cfg(feature = "redis")]
pub(crate) use waitable::refuse_behind;
pub(crate) use waitable::{InProcess, Patience, QueuedLimiter, Waitable, step_behind};
pub(crate) use waiter::Waiter;

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests;
