//! How much of a limit may be leased at once, and for how long.

use tidegate_core::{Leasable, Micros, Rule, Timestamp};

/// Clocks of two machines differ by less than one part in this number, in how fast they run.
const DRIFT_PART: u64 = 1_000;
/// A lease is given back when this part of its life has passed, in quarters: what was not spent by then is not needed.
const QUARTERS_HELD: u64 = 3;

/// The terms of the leases of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    most: u64,
    life: Micros,
    /// The longest life of any node's leases, if units of this rule drain one by one: how long the units of one lease
    /// may support another.
    longest: Option<Micros>,
    version: u64,
}

impl Terms {
    /// Returns the terms for leases of at most `most` units and `life`; `None` if the algorithm of the rule grants no
    /// lease of two units. A life is no longer than the window, bucket or tick that a lease ends with. No node grants
    /// leases of a life above `longest`.
    pub(crate) fn of(rule: &Rule, most: u64, life: Micros, longest: Micros) -> Option<Self> {
        let Leasable { units, life, drains } = rule.leasable(life)?;
        let most = units.min(most);
        let longest = drains.then(|| longest.max(life));
        (most >= 2).then_some(Self { most, life, longest, version: 0 })
    }

    /// Returns these terms with a version. A limiter has the leases of its newest terms only.
    pub(crate) const fn of_version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the most units of one lease.
    pub(crate) const fn most(&self) -> u64 {
        self.most
    }

    /// Returns the longest life of a lease.
    pub(crate) const fn life(&self) -> Micros {
        self.life
    }

    /// Returns the time since which units count that were taken for a lease and are given back: earlier if leases of
    /// other nodes may live longer.
    pub(crate) fn counted_from(&self, taken: Timestamp) -> Timestamp {
        self.exact_from(taken).plus(self.longest.map_or(Micros::ZERO, |_| self.life))
    }

    /// Returns the time since which units count that were taken for a request and are given back.
    pub(crate) fn exact_from(&self, taken: Timestamp) -> Timestamp {
        taken.minus(self.longest.unwrap_or(Micros::ZERO))
    }
}

/// Returns how long a lease can be used here that lasts `length` by the store's clock.
pub(super) const fn shortened(length: Micros) -> Micros {
    let us = length.as_micros();
    Micros::from_micros(us.saturating_sub(us.div_ceil(DRIFT_PART)))
}

/// Returns how long a lease is held before what is unspent is given back.
pub(super) const fn held_for(length: Micros) -> Micros {
    Micros::from_micros(length.as_micros() / 4 * QUARTERS_HELD)
}
