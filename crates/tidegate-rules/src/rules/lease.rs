//! The part of a limit that one node may lease, and the time of a lease.
//!
//! A node spends its lease without asking the store for each request.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate_core::Shown;

/// The lives of leases: a millisecond to a second.
pub(crate) const LEASE_LIVES: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(1);
/// The values of `life` in `lease`, in messages.
pub const LIFE_EXPECTED: &str = "a length of time such as \"200ms\", from 1ms to 1s";
/// The values of `max` in `lease`, in messages.
pub const LEASE_MAX_EXPECTED: &str = "a percentage of the limit from \"1%\" to \"100%\"";

/// The leases of a rule: units of its limit that a node takes ahead from a shared store
/// (`SharedGate`), to admit requests without asking it. A gate in memory has no leases.
///
/// The default is 10 percent for 200 ms.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{LeaseSpec, Policy, RuleSpec};
///
/// let calls = RuleSpec::new("calls", "10000/s").key(["user"]).lease(LeaseSpec::default());
/// assert!(Policy::new(vec![calls.clone()]).is_ok());
/// let long = LeaseSpec { max_percent: 5, life: Duration::from_secs(60) };
/// let wrong = Policy::new(vec![calls.lease(long)]).unwrap_err();
/// assert!(wrong.to_string().contains("from 1ms to 1s"), "{wrong}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseSpec {
    /// The maximum number of units of one lease, in percent of the limit or capacity: 1 to 100. Two units can always be
    /// leased.
    pub max_percent: u8,
    /// The longest life of a lease: 1 ms to 1 s. A lease also ends with its window, bucket or tick.
    pub life: Duration,
}

impl Default for LeaseSpec {
    fn default() -> Self {
        Self { max_percent: 10, life: Duration::from_millis(200) }
    }
}

/// Returns the maximum units of a lease under this limit.
pub fn most_leased(lease: &LeaseSpec, limit: u64) -> u64 {
    let part = u128::from(limit) * u128::from(lease.max_percent) / 100;
    u64::try_from(part).unwrap_or(u64::MAX).max(2)
}

/// Displays as in a configuration.
impl fmt::Display for LeaseSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "max {}%, life {}", self.max_percent, Shown(self.life))
    }
}
