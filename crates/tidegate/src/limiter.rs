//! Limiters without a gate: [`Limiter`] for one limit here, [`KeyedLimiter`] for one limit per key.
//!
//! Each verb is one step on one state in memory. While callers wait it goes through a `LimiterCall`, which lets no
//! call overtake them. The files of the folder add keys and plans, bans, reservations, and waiting.

mod ban;
mod counted;
mod key;
mod keyed;
mod plans;
mod reservation;
mod waiting;

use tidegate_core::{Decision, Rule, RuleErrors, Spec};

use crate::clock::{Clock, Reading, SystemClock};
use crate::step::{One, Step};
use crate::store::memory::{Preview, Unkeyed};
use crate::wait::{LimiterCall, LimiterSource, Queues};
pub use ban::Ban;
pub use key::{ByKey, Under};
pub use keyed::KeyedLimiter;
pub use reservation::Reservation;

/// One limiter, without keys. Share it by reference; every verb is exact under any concurrency.
///
/// ```
/// use std::time::Duration;
/// use tidegate::Limiter;
///
/// let limiter = Limiter::new("100/s")?;
/// assert!(limiter.admits(60));
/// assert!(limiter.admits(40));
/// let refused = limiter.check(50);
/// assert!(!refused.is_allowed());
/// assert!(refused.retry_after().is_some_and(|wait| wait <= Duration::from_millis(500)));
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Debug)]
pub struct Limiter<C = SystemClock> {
    cell: Unkeyed,
    pub(crate) clock: C,
    /// The waiters.
    pub(crate) queues: Queues<()>,
    /// True if the clock is read before the cell is locked.
    early: bool,
}

impl Limiter {
    /// Creates a limiter that uses the system's clock, of a [`Spec`] or of a rate such as `"50/s"`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Limiter, Spec};
    ///
    /// let uploads = Limiter::new("50/s")?;
    /// let exact = Limiter::new(Spec::new(AlgorithmKind::SlidingLog, 50, Duration::from_secs(1)))?;
    /// assert!(uploads.admits(50) && exact.admits(50));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of a text that is no rate, or every invalid field of the spec.
    pub fn new(spec: impl TryInto<Spec, Error: Into<RuleErrors>>) -> Result<Self, RuleErrors> {
        Self::with_clock(spec, SystemClock::new())
    }
}

impl<C: Clock> Limiter<C> {
    /// Creates a limiter that uses `clock`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Limiter, ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::with_clock("1/s", clock.clone())?;
    /// assert!(limiter.admits(1) && !limiter.admits(1));
    /// clock.advance(Duration::from_secs(1));
    /// assert!(limiter.admits(1));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of a text that is no rate, or every invalid field of the spec.
    pub fn with_clock(
        spec: impl TryInto<Spec, Error: Into<RuleErrors>>,
        clock: C,
    ) -> Result<Self, RuleErrors> {
        let spec = spec.try_into().map_err(Into::into)?;
        // States are packed only under a clock that never steps back, with times since this reading.
        let base = clock.never_steps_back().then(|| clock.now());
        let cell = Unkeyed::new(&Rule::new(spec)?, base);
        let early = cell.reads_early();
        Ok(Self { cell, clock, queues: Queues::new(), early })
    }

    /// Takes `cost` units if they fit now. Faster than [`Limiter::check`], because it computes no
    /// other value of a decision.
    ///
    /// ```
    /// let limiter = tidegate::Limiter::new("2/h")?;
    /// assert_eq!([(); 3].map(|()| limiter.admits(1)), [true, true, false]);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the result is looked at"]
    #[inline]
    pub fn admits(&self, cost: u64) -> bool {
        let admitted = self.admits_fast(&self.clock, cost);
        admitted.unwrap_or_else(|| self.admits_slowly(cost))
    }

    /// Takes `cost` units if they fit now and no caller waits for them, and returns the decision. An
    /// unlimited limiter returns the largest possible values.
    ///
    /// A decision that is not looked at limits nothing, so the compiler warns of it:
    ///
    /// ```compile_fail
    /// #![deny(unused_must_use)]
    /// let limiter = tidegate::Limiter::new("60/m").unwrap();
    /// limiter.check(1);
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub fn check(&self, cost: u64) -> Decision {
        self.step(cost, Step::Ask).decided.decision
    }

    /// Returns the decision that [`Limiter::check`] would return, and takes nothing. Its `remaining` is the number of
    /// units that would be admitted now, one by one; `u64::MAX` if unlimited.
    ///
    /// ```
    /// let limiter = tidegate::Limiter::new("100/h")?;
    /// assert!(limiter.admits(60));
    /// assert_eq!(limiter.peek(1).remaining, 40);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn peek(&self, cost: u64) -> Decision {
        self.step(cost, Step::Peek).decided.decision
    }

    /// Gives `units` back, at most as many as are used; returns the state of the limiter afterwards
    /// as a decision.
    ///
    /// ```
    /// let limiter = tidegate::Limiter::new("2/h")?;
    /// assert!(limiter.admits(2));
    /// assert_eq!(limiter.refund(1).remaining, 1);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn refund(&self, units: u64) -> Decision {
        self.call(units).step(Step::Refund).decided.decision
    }

    /// Resets the limiter: nothing counts as used. A bucket that begins with fewer tokens
    /// ([`Spec::initial`](crate::Spec::initial)) is full.
    ///
    /// ```
    /// let limiter = tidegate::Limiter::new("2/h")?;
    /// assert!(limiter.admits(2) && !limiter.admits(1));
    /// limiter.reset();
    /// assert!(limiter.admits(2));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn reset(&self) {
        self.cell.step(0, Step::Reset { remembers: true }, self.reading());
        // After the reset, so that an attempt in between finds the units by itself.
        self.queues.wake(&());
    }

    /// Replaces the rule by a rule of any algorithm, atomically: no decision mixes both rules, and no unit is lost
    /// between them.
    ///
    /// The limiter is first brought up to date under the old rule. Used units stay used: a higher
    /// limit adds the difference, a lower one may leave a debt, and a change to another rule and
    /// back gives no credit. If the algorithm, the window or its parts change, units in use count
    /// as taken now. An unlimited rule counts nothing and forgets nothing.
    ///
    /// A limiter that was never changed pays nothing for this; a changed one keeps its state under
    /// a lock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Limiter, Spec};
    ///
    /// let per_day = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(86_400));
    /// let limiter = Limiter::new(per_day(100))?;
    /// assert!(limiter.admits(80));
    /// limiter.amend(per_day(120))?;
    /// assert_eq!(limiter.peek(1).remaining, 40);
    /// limiter.amend(per_day(50))?;
    /// assert_eq!(limiter.peek(1).remaining, 0);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns every invalid field of the spec; the old rule stays in force.
    pub fn amend(
        &self,
        spec: impl TryInto<Spec, Error: Into<RuleErrors>>,
    ) -> Result<(), RuleErrors> {
        let rule = Rule::new(spec)?;
        self.cell.amend(&rule, Reading::of(&self.clock));
        self.queues.wake(&());
        Ok(())
    }

    /// [`Limiter::admits`] with a reading of `clock`; `None` if a caller waits.
    #[inline]
    fn admits_fast<T: Clock>(&self, clock: &T, cost: u64) -> Option<bool> {
        // This way would overtake callers that wait.
        if !self.queues.are_idle() {
            return None;
        }
        let (early, clock) = Reading::if_wanted(self.early, clock).apart();
        Some(self.cell.admits(cost, early, clock))
    }

    /// [`Limiter::admits`] if a caller waits. It stays out of line: the usual case then needs fewer registers.
    #[cold]
    #[inline(never)]
    fn admits_slowly(&self, cost: u64) -> bool {
        self.call(cost).step(Step::Decide).verdict.is_allowed()
    }

    /// Runs a step of a caller that does not wait: after the callers that do.
    #[inline]
    fn step(&self, cost: u64, step: Step) -> One {
        if self.queues.are_idle() {
            return self.cell.step(cost, step, self.reading());
        }
        self.call(cost).step(step)
    }

    /// A call that takes or returns `cost` units.
    #[inline]
    pub(crate) const fn call(&self, cost: u64) -> LimiterCall<'_, (), &Self> {
        LimiterCall::new(&self.queues, (), self, cost)
    }

    fn reading(&self) -> Reading<'_> {
        Reading::if_wanted(self.early, &self.clock)
    }
}

impl<C: Clock> LimiterSource for &Limiter<C> {
    #[inline]
    fn one(&self, cost: u64, step: Step) -> One {
        self.cell.step(cost, step, self.reading())
    }

    fn preview(&self) -> Option<Box<dyn Preview>> {
        Some(self.cell.preview(self.reading()))
    }
}
