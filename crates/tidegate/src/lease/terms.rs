//! How much of a limit may be leased at once, and for how long.

use tidegate_core::{Algorithm, Micros, Rule, Timestamp, Visitor};

/// Clocks of two machines differ by less than one part in this number, in how fast they run.
const DRIFT_PART: u64 = 1_000;
/// A lease is given back when this part of its life has passed, in quarters: what was not spent by then is not needed.
const QUARTERS_HELD: u64 = 3;

/// The terms of the leases of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    most: u64,
    life: Micros,
}

impl Terms {
    /// Returns the terms for leases of at most `most` units and `life`; `None` if the algorithm of the rule grants no
    /// lease of two units. A life is no longer than the window, bucket or tick that a lease ends with.
    pub(crate) fn of(rule: &Rule, most: u64, life: Micros) -> Option<Self> {
        let (most_leased, life) = rule.visit(Longest { life })??;
        let most = most_leased.min(most);
        (most >= 2).then_some(Self { most, life })
    }

    /// Returns the most units of one lease.
    pub(crate) const fn most(&self) -> u64 {
        self.most
    }

    /// Returns the longest life of a lease.
    pub(crate) const fn life(&self) -> Micros {
        self.life
    }
}

/// The most units of a lease, and its life if it is taken when a window, bucket or tick begins.
struct Longest {
    life: Micros,
}

impl Visitor for Longest {
    type Out = Option<(u64, Micros)>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Option<(u64, Micros)> {
        let begin = Timestamp::EPOCH;
        let end = algorithm.lease_end(&algorithm.fresh(begin), begin)?;
        let life = self.life.min(end.since(begin));
        Some((algorithm.most_leased(life), life))
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
