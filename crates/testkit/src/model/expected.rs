//! The values of one decision, by the definitions.
//!
//! Every verb of a model that decides ends here, and tests compare its values with a store's, one by one.

use super::{Policy, meaning::Meaning};

/// The decision about one request, by the definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// True if it is admitted.
    pub allowed: bool,
    /// N for windows, log and counter; the capacity of a bucket; capacity + 1 for a queue.
    pub limit: u64,
    /// Unit-cost requests that would be admitted at this instant, after this decision.
    pub remaining: u64,
    /// Least wait after which the same cost would be admitted; `Some(0)` if allowed, `None` if it
    /// never would be.
    pub retry_after_us: Option<u64>,
    /// Least wait after which the limiter is idle.
    pub reset_after_us: u64,
    /// The time for which an admitted request must be held before it runs.
    pub delay_us: u64,
}

impl Expected {
    /// The decision about `cost` at `t`, without a change of the state, for a caller whose clock is
    /// `behind` microseconds before `t`.
    ///
    /// A wait is the shortest time after which something holds, and the caller measures it on the clock that was read.
    /// The limiter's time goes on only when that clock has come to `t`, so the difference is added to a wait that is
    /// not zero. A delay is not such a wait: it is the time that a request is held, on any clock.
    pub(super) fn look(
        state: &dyn Meaning,
        policy: &Policy,
        t: i128,
        behind: i128,
        cost: u64,
    ) -> Self {
        let units = i128::from(cost);
        let read_wait = |wait: i128| value(if wait > 0 { wait + behind } else { 0 });
        let allowed = units == 0 || state.admits(t, units);
        let retry_after = if allowed { Some(0) } else { state.retry_after(t, units) };
        Self {
            allowed,
            limit: policy.decision_limit(),
            remaining: value(state.remaining(t)),
            retry_after_us: retry_after.map(read_wait),
            reset_after_us: read_wait(state.reset_after(t)),
            delay_us: if allowed && units > 0 { value(state.delay(t)) } else { 0 },
        }
    }
}

/// An exact number as a value of a decision: at least 0, at most `u64::MAX`.
pub(super) fn value(exact: i128) -> u64 {
    u64::try_from(exact.max(0)).unwrap_or(u64::MAX)
}
