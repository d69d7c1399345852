//! Sums of waiters, for a forecast that does not play them through one by one.

/// The number of some waiters, and their total cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    pub(crate) costs: u64,
    /// The smallest cost of one waiter; `u64::MAX` if there is none.
    pub(crate) least: u64,
}

impl Sums {
    pub(crate) const NONE: Self = Self { count: 0, costs: 0, least: u64::MAX };

    /// Returns the sums of one waiter.
    pub(super) const fn of(cost: u64) -> Self {
        Self { count: 1, costs: cost, least: cost }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            costs: self.costs.saturating_add(other.costs),
            least: self.least.min(other.least),
        }
    }
}
