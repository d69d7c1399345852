//! Decisions that are counted as they are taken, at the time that they were decided at.

use tidegate_core::{Decision, Timestamp};

use super::{KeyedLimiter, Limiter};
use crate::clock::{Clock, Noting};
use crate::stats::Statistics;
use crate::store::memory::Step;

impl<C: Clock> Limiter<C> {
    /// [`Limiter::admits`], counted in `statistics`: the units pass, or are blocked, at the time of the
    /// decision, so the clock is not read once more for it. A cost of 0 counts as nothing.
    ///
    /// ```
    /// use tidegate::{Algorithm, Limiter, Micros, Spec, Statistics};
    ///
    /// let limiter = Limiter::new(Spec::new(Algorithm::SlidingLog, 5, Micros::from_secs(60)))?;
    /// let statistics = Statistics::new();
    /// assert!(limiter.admits_counted(4, &statistics));
    /// assert!(!limiter.admits_counted(2, &statistics));
    /// let minute = statistics.minute();
    /// assert_eq!((minute.pass, minute.block), (4, 2));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[inline]
    pub fn admits_counted<S>(&self, cost: u64, statistics: &Statistics<S>) -> bool {
        let clock = Noting::new(&self.clock);
        let admitted = self.admits_by(&clock, cost);
        count(statistics, admitted, cost, clock.last());
        admitted
    }

    /// [`Limiter::check`], counted in `statistics` as [`Limiter::admits_counted`] counts.
    pub fn check_counted<S>(&self, cost: u64, statistics: &Statistics<S>) -> Decision {
        let clock = Noting::new(&self.clock);
        let decision = self.step_by(&clock, cost, Step::Ask);
        count(statistics, decision.is_allowed(), cost, clock.last());
        decision
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// [`KeyedLimiter::admits`], counted in `statistics`, which are those of all keys or of some: the
    /// units pass, or are blocked, at the time of the decision, so the clock is not read once more for
    /// it. A cost of 0 counts as nothing.
    ///
    /// ```
    /// use tidegate::{Algorithm, KeyedLimiter, Micros, Spec, Statistics};
    ///
    /// let per_user = KeyedLimiter::new(Spec::new(Algorithm::SlidingLog, 1, Micros::from_secs(60)))?;
    /// let statistics = Statistics::new();
    /// let admitted = ["ada", "ada", "bob"].map(|user| per_user.admits_counted(user, 1, &statistics));
    /// assert_eq!(admitted, [true, false, true]);
    /// let minute = statistics.minute();
    /// assert_eq!((minute.pass, minute.block), (2, 1));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[inline]
    pub fn admits_counted<S>(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        statistics: &Statistics<S>,
    ) -> bool {
        let clock = Noting::new(&self.clock);
        let admitted = self.admits_by(&clock, key.as_ref(), cost);
        count(statistics, admitted, cost, clock.last());
        admitted
    }

    /// [`KeyedLimiter::check`], counted in `statistics` as [`KeyedLimiter::admits_counted`] counts.
    pub fn check_counted<S>(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        statistics: &Statistics<S>,
    ) -> Decision {
        let clock = Noting::new(&self.clock);
        let decision = self.step_by(&clock, key.as_ref(), cost, Step::Ask);
        count(statistics, decision.is_allowed(), cost, clock.last());
        decision
    }
}

#[inline]
fn count<S>(statistics: &Statistics<S>, admitted: bool, units: u64, at: Timestamp) {
    match admitted {
        true => statistics.pass_at(units, at),
        false => statistics.block_at(units, at),
    }
}
