//! One call of a verb of one limiter, and the queue in front of the limiter.
//!
//! [`Limiter`](crate::Limiter), [`KeyedLimiter`](crate::KeyedLimiter) and the permits make a [`LimiterCall`] for
//! each call of theirs; it runs the step at once, after callers that wait, or as a waiter.

use tidegate_core::Micros;

use super::queues::{QueueKey, Queues};
use super::waitable::{InProcess, Patience, QueuedLimiter, Waitable, step_behind};
use super::waiter::Waiter;
use crate::clock::{Park, Timer};
use crate::step::{Done, One, Step};
use crate::store::memory::Preview;

/// A limiter, however its state is kept.
pub(crate) trait LimiterSource {
    /// Runs one step.
    fn one(&self, cost: u64, step: Step) -> One;

    /// Returns a preview; `None` if it is not known when units come back.
    fn preview(&self) -> Option<Box<dyn Preview>>;

    /// See [`Waitable::renew`].
    fn renew(&self) {}

    /// True for permits, which come back without a time: see [`Waitable::is_only_woken`].
    fn is_only_woken(&self) -> bool {
        false
    }
}

/// One call of a verb: its limiter and its units.
#[derive(Debug)]
pub(crate) struct LimiterCall<'a, K, S> {
    queues: &'a Queues<K>,
    queue: K,
    source: S,
    cost: u64,
    /// The place of the call in the queue; `None` if it takes nothing, and until it joins.
    stop: Option<QueuedLimiter<K>>,
}

impl<'a, K: QueueKey, S: LimiterSource> LimiterCall<'a, K, S> {
    #[inline]
    pub(crate) const fn new(queues: &'a Queues<K>, queue: K, source: S, cost: u64) -> Self {
        Self { queues, queue, source, cost, stop: None }
    }

    /// Runs one step without waiting. If callers wait, the step comes after them, unless it gives units back.
    #[inline]
    pub(crate) fn step(self, step: Step) -> One {
        // Units that come back overtake no caller, and are what the waiters wait for.
        if !self.queues.are_idle() && !step.gives_back() {
            return self.behind(step);
        }
        let one = self.source.one(self.cost, step);
        // After the step, so that the head that is woken finds the units.
        if step.gives_back() {
            self.queues.wake(&self.queue);
        }
        one
    }

    /// Runs a step of a caller that does not wait, while others wait.
    #[cold]
    fn behind(self, step: Step) -> One {
        step_behind(&self.waiting(Patience::NONE), step).into()
    }

    /// Waits as a task.
    pub(crate) async fn wait(self, patience: Patience, timer: &impl Timer) -> One {
        let mut waiter = Waiter::new(self.waiting(patience));
        let done = waiter.decided(timer).await;
        waiter.hold(done, timer).await.into()
    }

    /// Waits by blocking the thread.
    pub(crate) fn wait_blocking(self, patience: Patience, clock: &impl Park) -> One {
        let mut waiter = Waiter::new(self.waiting(patience));
        let done = waiter.decided_blocking(clock);
        waiter.hold_blocking(done, clock).into()
    }

    /// The same call, prepared to wait.
    pub(crate) fn waiting(self, patience: Patience) -> Self {
        let stop = QueuedLimiter { queue: self.queue.clone(), cost: self.cost, patience, index: 0 };
        Self { stop: (self.cost > 0).then_some(stop), ..self }
    }
}

impl<K: QueueKey, S: LimiterSource> Waitable for LimiterCall<'_, K, S> {
    type Key = K;

    fn queues(&self) -> &Queues<K> {
        self.queues
    }

    fn stops(&self) -> &[QueuedLimiter<K>] {
        self.stop.as_slice()
    }

    fn preview(&self, _stop: &QueuedLimiter<K>) -> Option<Box<dyn Preview>> {
        self.source.preview()
    }

    fn delay(&self, done: &Done) -> Micros {
        done.decisions.first().map_or(Micros::ZERO, |decided| decided.decision.delay_micros())
    }

    fn delay_is_waiting(&self) -> bool {
        !self.is_only_woken()
    }

    fn is_only_woken(&self) -> bool {
        self.source.is_only_woken()
    }

    fn renew(&self) {
        self.source.renew();
    }
}

impl<K: QueueKey, S: LimiterSource> InProcess for LimiterCall<'_, K, S> {
    fn step(&self, step: Step) -> Done {
        let one = self.source.one(self.cost, step);
        let allowed = one.verdict.is_allowed();
        let at = one.at;
        let decisions = step.wants_values().then_some(one.decided).into_iter().collect();
        Done { allowed, at, repeated: false, decisions }
    }
}
