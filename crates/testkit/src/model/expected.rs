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
    /// Least wait after which the limiter is idle.
    pub reset_after_us: u64,
    /// How long an admitted request must be held before it runs.
    pub delay_us: u64,
}

impl Expected {
    /// The answer for `cost` at `t`, the state left as it is, to a caller whose clock is `behind` that.
    ///
    /// A wait is the least after which something holds, and the caller counts it on the clock that was
    /// read. Only once that clock has come to `t` does the limiter's time go on, so a wait is longer by
    /// what it lacks; where there is nothing to wait for, it lacks nothing. A delay is no such wait:
    /// it is how long a request is held, whatever the clock says meanwhile.
    pub(super) fn look(
        state: &dyn Meaning,
        policy: &Policy,
        t: i128,
        behind: i128,
        cost: u64,
    ) -> Self {
        let units = i128::from(cost);
        let told = |wait: i128| figure(if wait > 0 { wait + behind } else { 0 });
        let allowed = units == 0 || state.admits(t, units);
        let retry_after = if allowed { Some(0) } else { state.retry_after(t, units) };
        Self {
            allowed,
            limit: policy.limit_figure(),
            remaining: figure(state.remaining(t)),
            retry_after_us: retry_after.map(told),
            reset_after_us: told(state.reset_after(t)),
            delay_us: if allowed && units > 0 { figure(state.delay(t)) } else { 0 },
        }
    }
}

/// An exact number as a figure: never below 0, at most `u64::MAX`.
pub(super) fn figure(exact: i128) -> u64 {
    u64::try_from(exact.max(0)).unwrap_or(u64::MAX)
}
