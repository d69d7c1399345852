//! Leases: units taken ahead from a store, spent in this process until they end, and given back if they are unspent.
//!
//! Everything here is a state machine without clock, network or tasks. The time comes from a clock of this process that
//! runs on while the machine sleeps, in microseconds since any origin. The code is the same for a gate over a store and
//! for the simulator, which checks the bounds of all algorithms with lost, late and repeated messages, clocks that
//! drift, and nodes and stores that fail.

mod book;
mod demand;
mod limiter;
mod reply;
#[cfg(test)]
pub(crate) mod sim;
mod terms;
#[cfg(test)]
mod tests;
mod units;

pub(crate) use book::{Book, BookAsk, Choice, Granted, LeaseCounts, Leased};
pub use book::{Unspent, Wanted};
pub(crate) use reply::Grant;
pub use reply::{GivenBack, LimiterReport};
pub(crate) use terms::Terms;
