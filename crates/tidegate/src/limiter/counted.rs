//! Decisions that are counted as they are taken, at the time that they were taken at.

use tidegate_core::{Decision, Timestamp};

use super::{KeyedLimiter, Limiter};
use crate::clock::{Clock, Noting};
use crate::stats::Statistics;
use crate::step::{Step, decision_of};

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
        if !self.queues.are_idle() {
            let done = self.behind(cost, Step::Decide);
            count(statistics, done.allowed, cost, done.at);
            return done.allowed;
        }
        let clock = Noting::new(&self.clock);
        let admitted = self.admits_by(&clock, cost);
        count(statistics, admitted, cost, clock.last());
        admitted
    }

    /// [`Limiter::check`], counted in `statistics` as [`Limiter::admits_counted`] counts.
    pub fn check_counted<S>(&self, cost: u64, statistics: &Statistics<S>) -> Decision {
        if !self.queues.are_idle() {
            let done = self.behind(cost, Step::Ask);
            count(statistics, done.allowed, cost, done.at);
            return decision_of(&done);
        }
        let clock = Noting::new(&self.clock);
        let decision = self.step_by(&clock, cost, Step::Ask);
        count(statistics, decision.is_allowed(), cost, clock.last());
        decision
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
    pub fn admits_counted<S>(
        &self,
        key: impl AsRef<[u8]>,
        cost: u64,
        statistics: &Statistics<S>,
    ) -> bool {
        if !self.queues.are_idle() {
            let done = self.behind(self.seed.of_bytes(key.as_ref()), cost, Step::Decide);
            count(statistics, done.allowed, cost, done.at);
            return done.allowed;
        }
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
        if !self.queues.are_idle() {
            let done = self.behind(self.seed.of_bytes(key.as_ref()), cost, Step::Ask);
            count(statistics, done.allowed, cost, done.at);
            return decision_of(&done);
        }
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
