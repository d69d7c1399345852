//! Leases: units that are taken ahead, to be spent in another place until an agreed instant.
//!
//! A unit of a lease counts from the moment when the lease is taken, and may be spent at any time before the lease
//! ends. So that no bound of an algorithm is passed, each algorithm says how long its units count alike whenever they
//! are spent.
//!
//! - Where units are counted by window, bucket or tick, a lease ends with the window, bucket or tick in which it was
//!   taken.
//! - In a level the units must drain as though they were taken at the end of the lease. Let T be the time in which one
//!   unit drains, TAT the moment when the level is empty, and e the end of the lease. Taking a lease of c units at t makes
//!   TAT := max(TAT, e) + c T, and is refused if TAT is then later than t + capacity T. Giving u of them back at a makes
//!   TAT := TAT - max(0, u T - (a - t)).
//!
//! Why that is enough for a level: number all leases in the order in which they were taken, and let U(i) be the units of
//! lease i that were neither spent nor given back. For each lease k, TAT - T (U(k) + U(k+1) + ...) >= e(k). So it is
//! when k is taken. Taking a later lease or a single request does not lower the left side, spending raises it or leaves
//! it, and giving back units of k or a later lease does not lower it. Giving back u units of an earlier lease i at a lowers
//! it by u T - (a - t(i)) at most. By the same for i, it was at least e(i) + u T before, so it is e(i) + (a - t(i))
//! = a + life afterwards, and e(k) is no later if all leases of a limiter have the same life. Where others may live longer,
//! by L - life at most, units given back count as taken that much earlier. Therefore F = TAT less the drain time of all
//! units that can still be spent is never before now while there are any, each unit that is spent moves F by T, and F
//! is never before the TAT of a level that takes each unit when it is spent. At most capacity + N units are spent in
//! any interval of length W. Without the part (a - t) the returned units of one lease could take away the units that
//! hold up the level under another. A single request is a lease that ends when it is taken: its units are given back
//! under other leases as though they had been taken the longest life earlier.

use crate::algorithm::Algorithm;
use crate::rule::{Rule, Visitor};
use crate::time::{Micros, Timestamp};

/// The leases that a rule can grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leasable {
    /// The maximum number of units of a lease, when nothing else is in use.
    pub units: u64,
    /// The life of a lease that is taken at the beginning of a window, bucket or tick.
    pub life: Micros,
    /// True if units drain one by one, so that units which are given back count less as time passes.
    pub drains: bool,
}

impl Rule {
    /// Returns the leases that the rule can grant for `life` at most; `None` if it grants none.
    ///
    /// ```
    /// use tidegate_core::{Leasable, Micros, Rule, Spec};
    ///
    /// let bucket = Rule::new(Spec::per_second(100).burst(50))?;
    /// let life = Micros::from_millis(200);
    /// assert_eq!(bucket.leasable(life), Some(Leasable { units: 30, life, drains: true }));
    /// # Ok::<(), tidegate_core::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn leasable(&self, life: Micros) -> Option<Leasable> {
        self.visit(Longest { life })?
    }
}

/// Finds the leases of at most this life.
struct Longest {
    life: Micros,
}

impl Visitor for Longest {
    type Out = Option<Leasable>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Option<Leasable> {
        // At the epoch a window, a bucket and a tick begin, so the lease is as long as it can be.
        let begin = Timestamp::EPOCH;
        let end = algorithm.lease_end(&algorithm.fresh(begin), begin)?;
        let life = self.life.min(end.since(begin));
        let drains = end == Timestamp::MAX;
        Some(Leasable { units: algorithm.most_leased(life), life, drains })
    }
}
