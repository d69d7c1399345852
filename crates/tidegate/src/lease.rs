//! Leases: units taken ahead from a store, spent in this process until they end, and given back if they are unspent.
//!
//! Everything here is a state machine without clock, network or tasks. The time comes from a clock of this process that
//! runs on while the machine sleeps, in microseconds since any origin. The simulator of the layers checks the bounds
//! of all algorithms with messages that are lost and late, clocks that drift and step, and nodes and stores that fail.

mod book;
mod demand;
mod limiter;
mod reply;
pub(crate) mod terms;
#[cfg(test)]
mod tests;
mod units;

pub(crate) use book::{Book, BookAsk, Choice, Granted, LeaseCounts, Leased};
pub use book::{Unspent, Wanted};
pub(crate) use reply::Grant;
pub use reply::{GivenBack, LimiterReport};
pub(crate) use terms::Terms;
