//! Leases: units taken ahead from a store, spent in this process until they end, and given back if they are
//! unspent.
//!
//! The layer `Leases` drives all of it: for each request it asks the [`Book`] which limiters have units here, and
//! for each lease it sends a question, tells the book the reply, and gives the rest back. Everything here is a
//! state machine without clock, network or tasks. The time comes from a clock of this process that runs on while
//! the machine sleeps, in microseconds since any origin. The simulator of the layers checks the bounds of all
//! algorithms with messages that are lost and late, clocks that drift and step, and nodes and stores that fail.
//!
//! The book has the leases of all limiters, `limiter` the leases of one limiter, and `units` one lease. `terms`
//! says how many units a lease of a rule may have and how long it lives, `demand` how many units are needed.

mod book;
mod demand;
mod limiter;
pub(crate) mod terms;
mod units;

pub(crate) use book::{Book, BookAsk, Choice, Granted, LeaseCounts, Leased};
pub(crate) use terms::Terms;
pub(crate) use units::Grant;

#[cfg(test)]
mod tests;
