//! The running totals: counts since the beginning, which only grow.
//!
//! Every count adds here, and only here; the history copies the totals when a half second begins.

use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Pass,
    Block,
    Exception,
    Success,
    /// Response times of successes, in microseconds.
    RtSumUs,
    Occupied,
}

/// The number of counts.
pub(super) const COUNTS: usize = 6;

/// One number for each [`Count`]. They wrap; only differences are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts(pub(super) [u64; COUNTS]);

impl Counts {
    /// The number of one count.
    pub(super) const fn of(&self, what: Count) -> u64 {
        self.0[what as usize]
    }

    pub(super) const fn add(&mut self, what: Count, amount: u64) {
        self.0[what as usize] = self.of(what).wrapping_add(amount);
    }

    /// The counts from `earlier` to these.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].wrapping_sub(earlier.0[at])))
    }
}

/// The totals of one resource, on cache lines of their own: a thread that counts one thing is about
/// to count another.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Totals {
    counts: [AtomicU64; COUNTS],
    in_flight: AtomicU64,
}

impl Totals {
    #[inline]
    pub(super) fn add(&self, what: Count, amount: u64) {
        // Relaxed, because no other count is read by it; where another is, `add_in_order` follows.
        self.counts[what as usize].fetch_add(amount, Relaxed);
    }

    /// Adds to one count, and returns its previous total.
    ///
    /// A thread that counts after [`Totals::mark`] sees everything that the marking thread did before.
    #[inline]
    pub(super) fn add_in_order(&self, what: Count, amount: u64) -> u64 {
        self.counts[what as usize].fetch_add(amount, AcqRel)
    }

    pub(super) fn read(&self) -> Counts {
        // In the order of `Count`: the sum of times is read after the successes, and has the time of each of them.
        Counts(std::array::from_fn(|at| self.counts[at].load(Acquire)))
    }

    /// The totals now, read by a write operation: each count that is not in them comes later, and
    /// can know that.
    pub(super) fn mark(&self) -> Counts {
        Counts(std::array::from_fn(|at| self.counts[at].fetch_add(0, AcqRel)))
    }

    /// Counts one request more in flight.
    #[inline]
    pub(super) fn enter(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// Counts one request less in flight; each call follows one of [`Totals::enter`].
    #[inline]
    pub(super) fn leave(&self) {
        // Pairs with the acquire below: a reader for whom the request has left sees its counts.
        self.in_flight.fetch_sub(1, Release);
    }

    /// The number of requests that entered and have not left.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.load(Acquire)
    }
}
