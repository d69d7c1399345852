//! The units of a limit that may be leased at once, and for how long: as a lease of a rule, or as a node's share of
//! it.
//!
//! The layer makes the terms of each rule when a policy takes effect; the book compares them with each limiter's,
//! and starts the limiter again under newer terms.

use tidegate_core::{Leasable, Limit, Micros, Rule, Timestamp};

/// Clocks of two machines differ by less than one part in this number, in how fast they run.
const DRIFT_PART: u64 = 1_000;
/// A lease is given back when this part of its life has passed, in quarters: units not spent by then are not needed.
const QUARTERS_HELD: u64 = 3;
/// A share of a limit that drains lives for at most this part of the time in which all of it drains, so that a burst is
/// smaller by at most this part.
const PART_OF_DRAINING: u64 = 4;
/// Shares of a shorter life are not worth their round trips.
const SHORTEST_SHARE: Micros = Micros::from_millis(10);

/// The number of units of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// The units that a recent life needed.
    Needed,
    /// A node's part of the units left, among the live nodes.
    Part,
}

/// The terms of the leases of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(super) size: Size,
    most: u64,
    life: Micros,
    /// The longest life of any node's leases, if units of this rule drain one by one. The units of a lease may support
    /// another lease for that time.
    longest: Option<Micros>,
    /// The length of a window, bucket or tick that leases end with, if they do.
    width: Option<Micros>,
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
        // `leasable` begins at the epoch, where a window, bucket or tick begins: the longest life is the length of one.
        let width = rule.leasable(Micros::MAX).filter(|longest| !longest.drains);
        let width = width.map(|longest| longest.life);
        let terms = Self { size: Size::Needed, most, life, longest, width, version: 0 };
        (most >= 2).then_some(terms)
    }

    /// Returns the terms for a node's share of a limit; `None` if the rule grants no lease of two units that is worth its
    /// round trips. A limit that drains is shared for at most `longest`.
    pub(crate) fn of_share(rule: &Rule, life: Micros, longest: Micros) -> Option<Self> {
        let drains = rule.leasable(life)?.drains;
        let life = if drains { life.min(drained_in(rule)?).min(longest) } else { life };
        let terms = Self::of(rule, u64::MAX, life, longest)?;
        (terms.life >= SHORTEST_SHARE).then_some(Self { size: Size::Part, ..terms })
    }

    /// Returns these terms with a version. A limiter has the leases of its newest terms only.
    pub(crate) const fn of_version(self, version: u64) -> Self {
        Self { version, ..self }
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the maximum units of one lease.
    pub(crate) const fn most(&self) -> u64 {
        self.most
    }

    /// Returns the longest life of a lease.
    pub(crate) const fn life(&self) -> Micros {
        self.life
    }

    /// Returns whether units of the rule drain one by one.
    pub(super) const fn drains(&self) -> bool {
        self.longest.is_some()
    }

    /// Returns how long a window, bucket or tick lasts from `at` by the store's clock. One that begins with its first
    /// unit may end at another time.
    pub(super) fn left_of_width(&self, at: Timestamp) -> Micros {
        let Some(width) = self.width.map(Micros::as_micros) else { return Micros::MAX };
        // Windows, buckets and ticks begin at multiples of their width since the epoch.
        Micros::from_micros(width - at.as_micros() % width.max(1))
    }

    /// Returns how much earlier than they were taken units of a lease count if they are given back: leases of other
    /// nodes may live longer.
    pub(crate) fn counts_earlier(&self) -> Micros {
        let longest = self.longest.unwrap_or(self.life).as_micros();
        Micros::from_micros(longest.saturating_sub(self.life.as_micros()))
    }

    /// Returns how much earlier than they were taken units of a request count if they are given back.
    pub(crate) fn exact_earlier(&self) -> Micros {
        self.longest.unwrap_or(Micros::ZERO)
    }
}

/// Returns the part of the time in which a full level drains that a share may live for.
fn drained_in(rule: &Rule) -> Option<Micros> {
    let spec = rule.spec();
    let Limit::Units(limit @ 1..) = spec.limit else { return None };
    let capacity = spec.capacity.unwrap_or(limit);
    // N units drain in W, so the whole capacity drains in W * capacity / N.
    let full = spec.window?.as_micros() * u128::from(capacity) / u128::from(limit);
    Some(Micros::from_micros(u64::try_from(full).unwrap_or(u64::MAX) / PART_OF_DRAINING))
}

/// Returns how long a lease can be used here that lasts `length` by the store's clock.
pub(crate) const fn shortened(length: Micros) -> Micros {
    let us = length.as_micros();
    // Rounded up, so that a lease ends here too early rather than too late, if this clock is slower than the
    // store's.
    Micros::from_micros(us.saturating_sub(us.div_ceil(DRIFT_PART)))
}

/// Returns the time that a lease is held before its unspent units are given back.
pub(super) const fn held_for(length: Micros) -> Micros {
    // Divided first: a life can be so long that three times it would overflow.
    Micros::from_micros(length.as_micros() / 4 * QUARTERS_HELD)
}
