//! Decisions that are also counted in statistics, at the time of the decision.
//!
//! `Limiter` and `KeyedLimiter` share [`counted`]: the fast path with a clock that remembers its reading.

use super::Limiter;
use crate::clock::{Clock, RecordingClock};
use crate::stats::Statistics;
use crate::step::{One, Step};

impl<C: Clock> Limiter<C> {
    /// [`Limiter::admits`], counted in `statistics` as passed or blocked units. The time of the
    /// decision is reused, so the clock is read once. A cost of 0 is not counted.
    ///
    /// The time comes from this limiter's clock, not from the clock of the statistics: clone a single clock for both.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Limiter, Spec, Statistics, SystemClock};
    ///
    /// let clock = SystemClock::new();
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 5, Duration::from_secs(60));
    /// let limiter = Limiter::with_clock(spec, clock.clone())?;
    /// let statistics = Statistics::with_clock(clock);
    /// assert!(limiter.admits_counted(4, &statistics));
    /// assert!(!limiter.admits_counted(2, &statistics));
    /// let minute = statistics.minute();
    /// assert_eq!((minute.pass, minute.block), (4, 2));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the result is looked at"]
    #[inline]
    pub fn admits_counted<S>(&self, cost: u64, statistics: &Statistics<S>) -> bool {
        counted(
            statistics,
            cost,
            &self.clock,
            |clock| self.admits_fast(clock, cost),
            || self.call(cost).step(Step::Decide),
        )
    }
}

/// Counts the decision `fast`, made with a clock that keeps its reading, or the decision of a full step if the fast
/// path made none.
#[inline]
pub(super) fn counted<S, C: Clock>(
    statistics: &Statistics<S>,
    cost: u64,
    clock: &C,
    fast: impl FnOnce(&RecordingClock<'_, C>) -> Option<bool>,
    step: impl FnOnce() -> One,
) -> bool {
    // The decision and the count have one time, so that they are in the same half second.
    let clock = RecordingClock::new(clock);
    let (admitted, at) = match fast(&clock) {
        Some(admitted) => (admitted, clock.last()),
        None => {
            let one = step();
            (one.verdict.is_allowed(), one.at)
        }
    };
    if admitted {
        statistics.pass_at(cost, at);
    } else {
        statistics.block_at(cost, at);
    }
    admitted
}
