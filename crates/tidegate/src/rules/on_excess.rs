//! The treatment of a request that exceeds a rule.

use std::time::Duration;

/// The largest `max_waiters`.
pub(crate) const MOST_MAX_WAITERS: usize = 1_000_000;
/// The values of `max_waiters`, in messages.
pub(crate) const MAX_WAITERS_EXPECTED: &str = "a whole number from 1 to 1000000";
/// The values of `wait` in `on_excess`, in messages.
pub(crate) const WAIT_EXPECTED: &str = "a length of time such as \"2s\", from 1us to 366d";

/// The treatment of a request that exceeds a rule, if the request is asked with
/// [`Gate::acquire`](crate::Gate::acquire), or of a call of [`Limiter::acquire`](crate::Limiter::acquire).
///
/// A [`Duration`] is a wait of that length among at most 1,024 waiters, also for
/// [`RuleSpec::on_excess`](crate::RuleSpec::on_excess).
///
/// ```
/// use std::time::Duration;
/// use tidegate::{OnExcess, RuleSpec};
///
/// let patient = OnExcess::Wait { wait: Duration::from_secs(2), max_waiters: 100 };
/// let rule = RuleSpec::new("per-user", "10/s").key(["user"]).on_excess(patient);
/// let brief = RuleSpec::new("all", "10/s").on_excess(Duration::from_secs(2));
/// assert_eq!(brief.on_excess, OnExcess::Wait { wait: Duration::from_secs(2), max_waiters: 1_024 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnExcess {
    /// The request is refused.
    #[default]
    Reject,
    /// The request waits: first come, first served, for each limiter of the rule.
    Wait {
        /// The longest wait, from the request's arrival: 1 us to 366 days. A request that cannot be admitted by then
        /// is refused immediately.
        wait: Duration,
        /// The maximum number of waiters for one limiter, from 1 to a million; further requests are refused
        /// immediately.
        max_waiters: usize,
    },
}

impl From<Duration> for OnExcess {
    fn from(wait: Duration) -> Self {
        Self::Wait { wait, max_waiters: 1_024 }
    }
}
