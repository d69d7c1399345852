//! Decisions that are counted as they are taken, at the time that they were taken at.

use tidegate_core::{Decision, Timestamp};

use super::key::Key;
use super::{KeyedLimiter, Limiter};
use crate::clock::{Clock, Noting};
use crate::stats::Statistics;
use crate::step::{One, Step};

impl<C: Clock> Limiter<C> {
    /// [`Limiter::admits`], counted in `statistics`: the units pass, or are blocked, at the time of the
    /// decision, so that the clock is not read once more for it. A cost of 0 counts as nothing.
    ///
    /// It is the time of this limiter's clock, whatever that of the statistics: clone one for both.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Limiter, Micros, Spec, Statistics, SystemClock};
    ///
    /// let clock = SystemClock::new();
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 5, Micros::from_secs(60));
    /// let limiter = Limiter::with_clock(spec, clock.clone())?;
    /// let statistics = Statistics::with_clock(clock);
    /// assert!(limiter.admits_counted(4, &statistics));
    /// assert!(!limiter.admits_counted(2, &statistics));
    /// let minute = statistics.minute();
    /// assert_eq!((minute.pass, minute.block), (4, 2));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[inline]
    pub fn admits_counted<S>(&self, cost: u64, statistics: &Statistics<S>) -> bool {
        let at_once = |clock: &Noting<'_, C>| self.admits_at_once(clock, cost);
        counted(statistics, cost, &self.clock, at_once, || self.call(cost).step(Step::Decide))
    }

    /// [`Limiter::check`], counted in `statistics` as [`Limiter::admits_counted`] counts.
    pub fn check_counted<S>(&self, cost: u64, statistics: &Statistics<S>) -> Decision {
        let one = self.call(cost).step(Step::Ask);
        count(statistics, one.verdict.is_allowed(), cost, one.at);
        one.or_unlimited()
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// [`KeyedLimiter::admits`], counted in `statistics`, which may be those of all keys or of some: the
    /// units pass, or are blocked, at the time of the decision, so that the clock is not read once more
    /// for it. A cost of 0 counts as nothing.
    ///
    /// It is the time of this limiter's clock, whatever that of the statistics: clone one for both.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Micros, Spec, Statistics, SystemClock};
    ///
    /// let clock = SystemClock::new();
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Micros::from_secs(60));
    /// let per_user = KeyedLimiter::with_clock(spec, clock.clone())?;
    /// let statistics = Statistics::with_clock(clock);
    /// let admitted = ["ada", "ada", "bob"].map(|user| per_user.admits_counted(user, 1, &statistics));
    /// assert_eq!(admitted, [true, false, true]);
    /// let minute = statistics.minute();
    /// assert_eq!((minute.pass, minute.block), (2, 1));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[inline]
    pub fn admits_counted<'r, S>(
        &self,
        key: impl Key<'r>,
        cost: u64,
        statistics: &Statistics<S>,
    ) -> bool {
        let at_once = |clock: &Noting<'_, C>| self.admits_at_once(clock, key.bytes(), cost);
        counted(statistics, cost, &self.clock, at_once, || self.one(&key, cost, Step::Decide))
    }

    /// [`KeyedLimiter::check`], counted in `statistics` as [`KeyedLimiter::admits_counted`] counts.
    pub fn check_counted<'r, S>(
        &self,
        key: impl Key<'r>,
        cost: u64,
        statistics: &Statistics<S>,
    ) -> Decision {
        let one = self.one(&key, cost, Step::Ask);
        count(statistics, one.verdict.is_allowed(), cost, one.at);
        one.or_unlimited()
    }
}

/// Counts what was admitted `at_once`, by a clock that keeps its reading, or by the step that follows where nothing
/// could be decided so.
#[inline]
fn counted<S, C: Clock>(
    statistics: &Statistics<S>,
    cost: u64,
    clock: &C,
    at_once: impl FnOnce(&Noting<'_, C>) -> Option<bool>,
    step: impl FnOnce() -> One,
) -> bool {
    let clock = Noting::new(clock);
    let (admitted, at) = match at_once(&clock) {
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
