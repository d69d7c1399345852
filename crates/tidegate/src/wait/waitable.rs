//! Things that can be waited for: one limiter, all limiters of a request, or permits.
//!
//! [`Waitable`] is what a waiter knows of them. The functions below are for callers that do not wait: they are
//! refused where others wait, with the wait that they would have had.

use tidegate_core::{Decision, Micros, Outcome};

use super::places::Ticket;
use super::queues::HeldQueues;
use super::queues::{QueueKey, Queues};
use crate::rules::OnExcess;
use crate::step::{Done, Step};
use crate::store::memory::{Forecast, Preview};

/// The longest wait for a limiter, and the largest number of waiters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) wait: Micros,
    pub(crate) max_waiters: usize,
}

impl Patience {
    /// The patience of a caller that does not wait.
    pub(crate) const NONE: Self = Self { wait: Micros::ZERO, max_waiters: 0 };
}

impl From<OnExcess> for Patience {
    fn from(on_excess: OnExcess) -> Self {
        match on_excess {
            OnExcess::Wait { wait, max_waiters } => Self { wait: wait.into(), max_waiters },
            OnExcess::Reject => Self::NONE,
        }
    }
}

/// A *stop*: a limiter that can refuse, and the queue in front of it.
#[derive(Clone, Debug)]
pub(crate) struct QueuedLimiter<K> {
    pub(crate) queue: K,
    /// At least 1: a request that takes nothing never waits.
    pub(crate) cost: u64,
    pub(crate) patience: Patience,
    /// The index of the limiter's decision in the result of a step.
    pub(crate) index: usize,
}

/// The limiters of one request, and the queues in front of them.
pub(crate) trait Waitable {
    /// The keys of its queues.
    type Key: QueueKey;

    /// The queues of this request and of all others.
    fn queues(&self) -> &Queues<Self::Key>;

    /// The limiters that can refuse the request.
    fn stops(&self) -> &[QueuedLimiter<Self::Key>];

    /// A preview of one limiter; `None` if there is none.
    fn preview(&self, stop: &QueuedLimiter<Self::Key>) -> Option<Box<dyn Preview>>;

    /// The time for which an admitted request must be held.
    fn delay(&self, done: &Done) -> Micros;

    /// Returns whether the delay counts against the longest wait.
    fn delay_is_waiting(&self) -> bool {
        false
    }

    /// Returns whether the time when units come back is unknown, so that a waiter sleeps until it is woken
    /// or too late.
    fn is_only_woken(&self) -> bool {
        false
    }

    /// Called before each attempt, after it was announced: earlier lookups may be out of date.
    fn renew(&self) {}
}

/// A waitable whose limiters reply immediately, so that all queues can stay locked during a step.
pub(crate) trait InProcess: Waitable {
    /// Runs one atomic step over all limiters.
    fn step(&self, step: Step) -> Done;
}

/// Forecasts when `stop` admits the request after the requests that came before `ticket`; `None` is never.
pub(crate) fn forecast_for<D: Waitable>(
    waitable: &D,
    held: &HeldQueues<'_, D::Key>,
    stop: &QueuedLimiter<D::Key>,
    ticket: Ticket,
) -> Option<Forecast> {
    // Nothing is known about the time, so the forecast keeps no caller from waiting.
    let Some(mut preview) = waitable.preview(stop) else { return Some(Forecast::default()) };
    let before = held.queue(&stop.queue).map(|queue| queue.before(ticket)).unwrap_or_default();
    for cost in before.first {
        preview.admit(cost);
    }
    // The sum of the others is admitted at once, because a long queue would take long one by one.
    preview.admit_behind(before.others, stop.cost)
}

/// Turns a decision into a refusal; without a `wait` it is never admitted. A wait is at least a
/// microsecond, because even a caller that comes immediately stands after the callers that wait.
pub(crate) fn refuse(decision: &mut Decision, wait: Option<Micros>) {
    decision.outcome = match wait {
        Some(wait) => Outcome::Deny { retry_after: wait.max(Micros::from_micros(1)) },
        None => Outcome::Never,
    };
}

/// Runs a step of a caller that does not wait. If others wait, it is refused, with its expected
/// wait in the queue as `retry_after`.
pub(crate) fn step_behind<D: InProcess>(waitable: &D, step: Step) -> Done {
    // The usual case takes no lock.
    if waitable.stops().iter().all(|stop| waitable.queues().is_idle(&stop.queue)) {
        return waitable.step(step);
    }
    // A count also includes callers that are about to find out whether they wait; only the queues say who does. While
    // they are locked, no request joins, so this request overtakes none.
    let held = waitable.queues().lock();
    if waitable.stops().iter().all(|stop| held.len(&stop.queue) == 0) {
        return waitable.step(step);
    }
    let mut seen = waitable.step(Step::Peek);
    // A remembered answer takes nothing from the requests that wait.
    if seen.repeated {
        return seen;
    }
    // Waiters for a rule that has become unlimited are about to leave.
    if !refuse_behind(waitable, &held, &mut seen) {
        return waitable.step(step);
    }
    seen
}

/// Refuses a caller that does not wait at each limiter with waiters, with the expected wait as
/// `retry_after`; returns whether there is any such limiter.
pub(crate) fn refuse_behind<D: Waitable>(
    waitable: &D,
    held: &HeldQueues<'_, D::Key>,
    seen: &mut Done,
) -> bool {
    let mut is_behind = false;
    for stop in waitable.stops().iter().filter(|stop| held.len(&stop.queue) > 0) {
        let decided = seen.decisions.get_mut(stop.index);
        if decided.as_ref().is_some_and(|decided| decided.decision.is_unlimited()) {
            continue;
        }
        is_behind = true;
        seen.allowed = false;
        // As though it came last.
        let forecast = forecast_for(waitable, held, stop, Ticket::MAX);
        if let Some(decided) = decided {
            let least = decided.decision.retry_after_micros();
            let wait = least.and_then(|least| Some(forecast?.wait.max(least)));
            refuse(&mut decided.decision, wait);
            decided.decision.remaining = 0;
        }
    }
    is_behind
}
