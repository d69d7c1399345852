//! The figures of one decision, as the definitions give them.

use super::{Policy, meaning::Meaning};

/// What the definitions say about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Admitted or not.
    pub allowed: bool,
    /// N for windows, log and counter; the capacity of a bucket; capacity + 1 for a queue.
    pub limit: u64,
    /// Unit-cost requests that would be admitted at this instant, after this decision.
    pub remaining: u64,
    /// Least wait after which the same cost would be admitted; `Some(0)` when allowed, `None`
    /// when it never would be.
    pub retry_after_us: Option<u64>,
    /// Least wait after which the limiter is as good as new.
    pub reset_after_us: u64,
    /// How long an admitted request must be held before it runs.
    pub delay_us: u64,
}

impl Expected {
    /// A limit of 0 denies every cost of 1 or more for ever.
    pub(super) fn of_limit_zero(cost: u64) -> Self {
        Self {
            allowed: cost == 0,
            limit: 0,
            remaining: 0,
            retry_after_us: (cost == 0).then_some(0),
            reset_after_us: 0,
            delay_us: 0,
        }
    }

    /// The answer for `cost` at `t`, the state left as it is.
    pub(super) fn look(state: &dyn Meaning, policy: &Policy, t: i128, cost: u64) -> Self {
        let units = i128::from(cost);
        let allowed = units == 0 || state.admits(t, units);
        let retry_after = if allowed { Some(0) } else { state.retry_after(t, units) };
        Self {
            allowed,
            limit: policy.limit_figure(),
            remaining: figure(state.remaining(t)),
            retry_after_us: retry_after.map(figure),
            reset_after_us: figure(state.reset_after(t)),
            delay_us: if allowed && units > 0 { figure(state.delay(t)) } else { 0 },
        }
    }
}

/// An exact number as a figure: never below 0, at most `u64::MAX`.
pub(super) fn figure(exact: i128) -> u64 {
    u64::try_from(exact.max(0)).unwrap_or(u64::MAX)
}
