//! Waiting for a limiter without a key.

use tidegate_core::{Decision, Micros};

use super::super::Limiter;
use crate::clock::{Clock, Park, Timer};
use crate::step::{Done, One, Step, decision_of, unlimited_at};
use crate::store::memory::Preview;
use crate::wait::{Patience, Single, Source, step_behind, wait, wait_blocking};

impl<C: Clock> Limiter<C> {
    /// Takes `cost` units if they fit now and nobody waits for this limiter. The same as
    /// [`Limiter::check`]: no verb overtakes those who wait.
    pub fn try_acquire(&self, cost: u64) -> Decision {
        self.check(cost)
    }

    /// Lets at most `max_waiters` wait at once (1,024 unless said); who comes when so many wait is
    /// refused at once. With 0 nobody waits.
    #[must_use]
    pub const fn with_max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }

    /// How many wait at this moment.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queues.len(&())
    }

    /// A step of one who does not wait, while others do.
    #[cold]
    pub(crate) fn step_behind(&self, cost: u64, step: Step) -> Decision {
        decision_of(&self.behind(cost, step))
    }

    /// The same with all that came of it.
    #[cold]
    pub(crate) fn behind(&self, cost: u64, step: Step) -> Done {
        step_behind(&self.waitable(cost, Micros::ZERO), step)
    }

    /// Takes `cost` units at once, or is refused: also by those who wait.
    pub(crate) fn take_or_refuse(&self, cost: u64) -> Result<Option<One>, Decision> {
        if self.queues.are_idle() {
            return Ok(self.step_now(cost, Step::Ask));
        }
        self.waitable(cost, Micros::ZERO).take_or_refuse().map(Some)
    }

    /// The same without figures.
    #[cold]
    pub(crate) fn admits_behind(&self, cost: u64) -> bool {
        self.behind(cost, Step::Decide).allowed
    }

    fn waitable(&self, cost: u64, wait: Micros) -> Single<'_, (), &Self> {
        let patience = Patience { wait, max_waiters: self.max_waiters };
        Single::new(&self.queues, (), self, cost, patience)
    }
}

impl<C: Timer> Limiter<C> {
    /// Waits until `cost` units fit, takes them, and resolves when the work may run.
    ///
    /// First come, first served: nobody overtakes who waits, whatever they ask for and by whichever
    /// verb. Refused at once is what can not be admitted (and run) within `max_wait`, those who wait
    /// already counted in, and what comes when the queue is full; `retry_after` is then the time it
    /// would have taken. An admitted decision tells no `delay`: a queue's has passed.
    ///
    /// It arrives when it is polled first. Nothing is promised to who waits, so a change of the limit
    /// can still lead to a refusal later. A cost of 0 never waits.
    ///
    /// Dropped before it resolves, it leaves no trace, and those behind it move up; only a queue's
    /// admitted work keeps its slot, as a delay once told stays. A future that is kept but not polled
    /// holds up those behind it for as long as it would have waited, and a second more.
    ///
    /// Takes a clock with a timer: with the feature `tokio`, the system's.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Limiter, ManualClock, Micros, Spec, Timer};
    ///
    /// # async fn work(limiter: &Limiter<impl Timer>) {
    /// if limiter.acquire(1, Micros::from_secs(2)).await.is_allowed() {
    ///     // The work goes here.
    /// }
    /// # }
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 10, Micros::from_secs(1));
    /// let limiter = Limiter::with_clock(spec, ManualClock::new())?;
    /// let work = work(&limiter);
    /// # let work = std::pin::pin!(work);
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(work.poll(&mut context).is_ready());
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub async fn acquire(&self, cost: u64, max_wait: Micros) -> Decision {
        decision_of(&wait(self.waitable(cost, max_wait), &self.clock).await)
    }
}

impl<C: Park> Limiter<C> {
    /// What [`Limiter::acquire`] does, by blocking the thread.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Limiter, Micros, Spec};
    ///
    /// let limiter = Limiter::new(Spec::new(AlgorithmKind::TokenBucket, 1_000, Micros::from_secs(1)))?;
    /// assert!(limiter.acquire_blocking(1_000, Micros::ZERO).is_allowed());
    /// assert!(limiter.acquire_blocking(1, Micros::from_secs(1)).is_allowed());
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn acquire_blocking(&self, cost: u64, max_wait: Micros) -> Decision {
        decision_of(&wait_blocking(self.waitable(cost, max_wait), &self.clock))
    }
}

impl<C: Clock> Source for &Limiter<C> {
    fn one(&self, cost: u64, step: Step) -> One {
        self.step_now(cost, step).unwrap_or_else(|| unlimited_at(self.clock.now()))
    }

    fn preview(&self) -> Option<Box<dyn Preview>> {
        self.preview_now()
    }
}
