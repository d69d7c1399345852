//! Limiters used by themselves: one for all, here, or one for each key (keyed.rs).

mod amend;
mod ban;
mod counted;
mod keyed;
mod planned;
mod reservation;
mod reset;
mod waiting;

use std::sync::Arc;

use tidegate_core::{Decision, Rule, RuleErrors, Spec};

use crate::clock::{Clock, Reading, SystemClock};
use crate::step::{One, Step, UNLIMITED};
use crate::store::memory::{Cell, Later, Preview, cell_of};
use crate::wait::{DEFAULT_MAX_WAITERS, Queues};
pub use ban::Ban;
pub use keyed::KeyedLimiter;
pub(crate) use planned::Plan;
pub use planned::{PlannedLimiter, Under};
pub use reservation::Reservation;

/// One limiter, without any key. Share it by reference; every verb is exact under any concurrency.
///
/// ```
/// use tidegate::{AlgorithmKind, Limiter, Micros, Spec};
///
/// let limiter = Limiter::new(Spec::new(AlgorithmKind::TokenBucket, 100, Micros::from_secs(1)))?;
/// assert!(limiter.admits(60));
/// assert!(limiter.admits(40));
/// let refused = limiter.check(50);
/// assert!(!refused.is_allowed());
/// assert!(refused.retry_after().is_some_and(|wait| wait <= Micros::from_millis(500)));
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Debug)]
pub struct Limiter<C = SystemClock> {
    /// `None` when built unlimited.
    cell: Option<Box<dyn Cell>>,
    /// What decides once the rule was changed.
    later: Arc<Later<dyn Cell>>,
    pub(crate) clock: C,
    /// Who waits.
    pub(crate) queues: Queues<()>,
    pub(crate) max_waiters: usize,
    /// Whether the clock is read before the cell is held.
    early: bool,
}

impl Limiter {
    /// A limiter as new, by the system's clock.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn new(spec: Spec) -> Result<Self, RuleErrors> {
        Self::with_clock(spec, SystemClock::new())
    }
}

impl<C: Clock> Limiter<C> {
    /// A limiter as new, by `clock`.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn with_clock(spec: Spec, clock: C) -> Result<Self, RuleErrors> {
        let base = clock.never_steps_back().then(|| clock.now());
        let later = Later::none_yet();
        let cell = Rule::new(spec)?.visit(cell_of(base, Arc::clone(&later)));
        let early = cell.as_ref().is_some_and(|cell| cell.reads_early());
        let (queues, max_waiters) = (Queues::new(), DEFAULT_MAX_WAITERS);
        Ok(Self { cell, later, clock, queues, max_waiters, early })
    }

    /// Takes `cost` units if they fit now; works out no figures.
    #[inline]
    pub fn admits(&self, cost: u64) -> bool {
        self.admits_by(&self.clock, cost)
    }

    /// Takes `cost` units if they fit now, and tells the figures. An unlimited limiter tells the
    /// largest there are.
    pub fn check(&self, cost: u64) -> Decision {
        self.step(cost, Step::Ask)
    }

    /// What [`Limiter::check`] would answer, taking nothing.
    pub fn peek(&self, cost: u64) -> Decision {
        self.step(cost, Step::Peek)
    }

    /// Gives `units` back, to no fewer than none used; tells how the limiter stands then.
    pub fn refund(&self, units: u64) -> Decision {
        self.step(units, Step::Refund)
    }

    /// Makes it as good as new.
    pub fn reset(&self) {
        match &self.cell {
            Some(cell) => cell.forget(),
            None => self.later.forget(),
        }
        self.queues.wake(&());
    }

    /// [`Limiter::admits`], by its own clock as `clock` reads it.
    #[inline]
    fn admits_by<T: Clock>(&self, clock: &T, cost: u64) -> bool {
        let Some(cell) = &self.cell else { return self.admits_unlimited(clock, cost) };
        match self.queues.are_idle() {
            true => {
                let (early, clock) = self.reading(clock).apart();
                cell.admits(cost, early, clock)
            }
            false => self.admits_behind(cost),
        }
    }

    fn step(&self, cost: u64, step: Step) -> Decision {
        self.step_by(&self.clock, cost, step)
    }

    fn step_by<T: Clock>(&self, clock: &T, cost: u64, step: Step) -> Decision {
        if !self.queues.are_idle() && !step.gives_back() {
            return self.step_behind(cost, step);
        }
        let one = self.step_now_by(clock, cost, step);
        if step.gives_back() {
            self.queues.wake(&());
        }
        one.and_then(|one| one.decision).unwrap_or(UNLIMITED)
    }

    /// One step, whoever waits; `None` when unlimited.
    pub(crate) fn step_now(&self, cost: u64, step: Step) -> Option<One> {
        self.step_now_by(&self.clock, cost, step)
    }

    fn step_now_by<T: Clock>(&self, clock: &T, cost: u64, step: Step) -> Option<One> {
        let reading = || self.reading(clock);
        match &self.cell {
            Some(cell) => Some(cell.step(cost, step, reading())),
            None => self.later.has_begun().then(|| self.later.step(cost, step, reading())),
        }
    }

    /// [`Limiter::admits`] of one that was built unlimited.
    fn admits_unlimited<T: Clock>(&self, clock: &T, cost: u64) -> bool {
        !self.later.has_begun()
            || match self.queues.are_idle() {
                true => self.later.admits(cost, self.reading(clock)),
                false => self.admits_behind(cost),
            }
    }

    /// A preview; `None` when unlimited.
    pub(crate) fn preview_now(&self) -> Option<Box<dyn Preview>> {
        match &self.cell {
            Some(cell) => Some(cell.preview(self.reading(&self.clock))),
            None => self.later.has_begun().then(|| self.later.preview(self.reading(&self.clock))),
        }
    }

    #[inline]
    fn reading<'a, T: Clock>(&self, clock: &'a T) -> Reading<'a> {
        Reading::if_wanted(self.early, clock)
    }
}
