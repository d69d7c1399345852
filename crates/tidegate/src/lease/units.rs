//! The units of one lease, from its grant until the last of them is spent or handed out to be given back.

use tidegate_core::{Micros, Timestamp};

/// A lease that the store granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) ticket: u64,
    /// When the lease was taken, by the store's clock.
    pub(crate) since: Timestamp,
    /// When it ends, by the store's clock.
    pub(crate) end: Timestamp,
}

/// A lease that was granted, until all of its units are spent or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GrantedLease {
    pub(super) ticket: u64,
    /// When the store took its units, by the store's clock.
    pub(super) since: Timestamp,
    /// Units that can still be spent.
    pub(super) units: u64,
    /// Units that requests hold until the store has decided the rest of them.
    pub(super) held: u64,
    /// Units that the store counts for this lease, when all units handed out to be given back are back.
    pub(super) counted: u64,
    /// When it ends, by the clock of this process.
    pub(super) ends: Micros,
    /// When the rest is to be given back.
    pub(super) due: Micros,
    /// The time that its units count as taken earlier if they are given back.
    pub(super) earlier: Micros,
    /// Among how many parts the limit was divided for it: one for each node and one for the store. 0 if it is no
    /// share.
    pub(super) parts: u64,
    /// True if a part of it is on its way back. The rest goes back after that: the store may get messages in another
    /// order, and each return of units says how many stay.
    pub(super) gives_back: bool,
    /// True if its units are no longer spent, and are given back as soon as no request holds any.
    pub(super) is_closed: bool,
}

impl GrantedLease {
    /// Returns whether its units can be spent now.
    pub(super) fn is_open(&self, now: Micros) -> bool {
        !self.is_closed && now < self.ends
    }

    /// Returns whether the unspent units can be given back: no request holds units, and none are on their way back.
    pub(super) const fn is_at_rest(&self) -> bool {
        self.held == 0 && !self.gives_back
    }

    /// Returns its units that a request may spend, at most `cost`.
    pub(super) fn for_cost(&self, now: Micros, cost: u64) -> u64 {
        if self.is_open(now) { self.units.min(cost) } else { 0 }
    }

    /// Returns the unspent units once no request holds units of it.
    pub(super) const fn rest(&self) -> Rest {
        let Self { ticket, units, counted, earlier, .. } = *self;
        Rest { ticket, units, kept: counted.saturating_sub(units), earlier }
    }
}

/// Units of a lease that is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    pub(super) ticket: u64,
    pub(super) units: u64,
    /// Units of the lease that stay taken.
    pub(super) kept: u64,
    pub(super) earlier: Micros,
}
