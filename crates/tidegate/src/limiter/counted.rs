//! Decisions that are also counted in statistics, at the time of the decision.

use tidegate_core::Timestamp;

use super::key::ByKey;
use super::{KeyedLimiter, Limiter};
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
        let fast = |clock: &RecordingClock<'_, C>| self.admits_fast(clock, cost);
        counted(statistics, cost, &self.clock, fast, || self.call(cost).step(Step::Decide))
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// [`KeyedLimiter::admits`], counted in `statistics` as passed or blocked units; these may
    /// belong to all keys or to some. The time of the decision is reused, so the clock is read
    /// once. A cost of 0 is not counted.
    ///
    /// The time comes from this limiter's clock, not from the clock of the statistics: clone a single clock for both.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Spec, Statistics, SystemClock};
    ///
    /// let clock = SystemClock::new();
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(60));
    /// let per_user = KeyedLimiter::with_clock(spec, clock.clone())?;
    /// let statistics = Statistics::with_clock(clock);
    /// let admitted = ["ada", "ada", "bob"].map(|user| per_user.admits_counted(user, 1, &statistics));
    /// assert_eq!(admitted, [true, false, true]);
    /// let minute = statistics.minute();
    /// assert_eq!((minute.pass, minute.block), (2, 1));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the result is looked at"]
    #[inline]
    pub fn admits_counted<'r, S>(
        &self,
        key: impl ByKey<'r>,
        cost: u64,
        statistics: &Statistics<S>,
    ) -> bool {
        let fast = |clock: &RecordingClock<'_, C>| self.admits_fast(clock, key.key(), cost);
        counted(statistics, cost, &self.clock, fast, || self.one(&key, cost, Step::Decide))
    }
}

/// Counts the decision `fast`, made with a clock that keeps its reading, or the decision of a full step if the fast
/// path made none.
#[inline]
fn counted<S, C: Clock>(
    statistics: &Statistics<S>,
    cost: u64,
    clock: &C,
    fast: impl FnOnce(&RecordingClock<'_, C>) -> Option<bool>,
    step: impl FnOnce() -> One,
) -> bool {
    let clock = RecordingClock::new(clock);
    let (admitted, at) = match fast(&clock) {
        Some(admitted) => (admitted, clock.last()),
        None => {
            let one = step();
            (one.verdict.is_allowed(), one.at)
        }
    };
    count(statistics, admitted, cost, at);
    admitted
}

#[inline]
fn count<S>(statistics: &Statistics<S>, admitted: bool, units: u64, at: Timestamp) {
    match admitted {
        true => statistics.pass_at(units, at),
        false => statistics.block_at(units, at),
    }
}
