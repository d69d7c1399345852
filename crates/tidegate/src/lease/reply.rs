//! The store's replies about a limiter and its leases, as the layer hands them to the book.

use tidegate_core::Timestamp;

/// A lease that the store granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) ticket: u64,
    /// When the lease was taken, by the store's clock.
    pub(crate) since: Timestamp,
    /// When it ends, by the store's clock.
    pub(crate) end: Timestamp,
}

/// The state of a limiter in the store, by a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimiterReport {
    /// Units that a request could still take.
    pub remaining: u64,
    /// When the store decided that, by its clock.
    pub at: Timestamp,
    /// When nothing is used unless more is taken, by the same clock.
    pub idle_at: Timestamp,
}

/// The fate of units of a lease that were given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBack {
    /// They are back, by this call or an earlier one.
    Back,
    /// They count no more: their window, bucket or tick has ended, or they have drained.
    TooLate,
    /// The record does not have them: this server never granted them, or has forgotten it.
    NotTaken,
}
