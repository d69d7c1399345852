//! What can be waited for: one limiter, all that a request meets, or permits.

use tidegate_core::{Decision, Micros, Outcome};

use super::places::Ticket;
use super::queues::HeldQueues;
use super::queues::{QueueKey, Queues};
use crate::step::{Done, Step};
use crate::store::memory::{Forecast, Preview};

/// How long, and beside how many, one may wait for a limiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) wait: Micros,
    pub(crate) max_waiters: usize,
}

/// A limiter that can refuse, and the queue before it.
#[derive(Clone, Debug)]
pub(crate) struct Stop<K> {
    pub(crate) queue: K,
    /// At least 1: who takes nothing stops nowhere.
    pub(crate) cost: u64,
    pub(crate) patience: Patience,
    /// Which of the step's decisions is this limiter's.
    pub(crate) place: usize,
}

/// The limiters of one request, and the queues before them.
pub(crate) trait Waitable {
    /// What tells its queues apart.
    type Key: QueueKey;

    /// The queues, of this request and of all others.
    fn queues(&self) -> &Queues<Self::Key>;

    /// The limiters that can refuse it.
    fn stops(&self) -> &[Stop<Self::Key>];

    /// A preview on one limiter; `None` where there is none.
    fn preview(&self, stop: &Stop<Self::Key>) -> Option<Box<dyn Preview>>;

    /// How long a request that was admitted must be held.
    fn delay(&self, done: &Done) -> Micros;

    /// Whether the time for which it is held is part of how long it may wait.
    fn delay_is_waiting(&self) -> bool;

    /// Whether nobody knows when units come back, so that it sleeps until it is woken or too late.
    fn is_only_woken(&self) -> bool {
        false
    }

    /// It asks anew, having announced itself: what was looked up when it asked before may have changed.
    fn renew(&self) {}
}

/// A waitable to limiters that answer at once, so that all queues can be held meanwhile.
pub(crate) trait InProcess: Waitable {
    /// One atomic step over all limiters.
    fn step(&self, step: Step) -> Done;
}

/// When `stop` lets a request through, behind those who came before `ticket`; `None` is never.
pub(crate) fn forecast_for<D: Waitable>(
    waitable: &D,
    held: &HeldQueues<'_, D::Key>,
    stop: &Stop<D::Key>,
    ticket: Ticket,
) -> Option<Forecast> {
    let Some(mut preview) = waitable.preview(stop) else { return Some(Forecast::default()) };
    let before = held.queue(&stop.queue).map(|queue| queue.before(ticket)).unwrap_or_default();
    for cost in before.first {
        preview.admit(cost);
    }
    preview.admit_behind(before.others, stop.cost)
}

/// A refusal in the figures of a limiter; `wait` is none when it never ends, and is told as at least a
/// microsecond, for whoever comes at once stands behind those who wait.
pub(crate) fn refuse(decision: &mut Decision, wait: Option<Micros>) {
    decision.outcome = match wait {
        Some(wait) => Outcome::Deny { retry_after: wait.max(Micros::from_micros(1)) },
        None => Outcome::Never,
    };
}

/// A step of one who does not wait: behind all who do, it is refused, and told when its turn would
/// come.
pub(crate) fn step_behind<D: InProcess>(waitable: &D, step: Step) -> Done {
    if waitable.stops().iter().all(|stop| waitable.queues().is_idle(&stop.queue)) {
        return waitable.step(step);
    }
    let held = waitable.queues().lock();
    if waitable.stops().iter().all(|stop| held.len(&stop.queue) == 0) {
        return waitable.step(step);
    }
    let mut seen = waitable.step(Step::Peek);
    if seen.repeated {
        return seen;
    }
    // Those who wait for a rule that was changed to be unlimited are about to leave.
    if !refuse_behind(waitable, &held, &mut seen) {
        return waitable.step(step);
    }
    seen
}

/// Refuses one who does not wait, at each limiter for which somebody does, and tells when its turn would
/// come; whether there is any such limiter.
pub(crate) fn refuse_behind<D: Waitable>(
    waitable: &D,
    held: &HeldQueues<'_, D::Key>,
    seen: &mut Done,
) -> bool {
    let mut is_behind = false;
    let limits = |stop: &Stop<D::Key>| {
        seen.decisions.get(stop.place).is_none_or(|decided| !decided.unlimited)
    };
    let queues: Vec<_> =
        waitable.stops().iter().filter(|stop| held.len(&stop.queue) > 0 && limits(stop)).collect();
    for stop in queues {
        (is_behind, seen.allowed) = (true, false);
        let forecast = forecast_for(waitable, held, stop, Ticket::MAX);
        if let Some(decided) = seen.decisions.get_mut(stop.place) {
            let least = decided.decision.retry_after();
            let wait = least.and_then(|least| Some(forecast?.wait.max(least)));
            refuse(&mut decided.decision, wait);
            decided.decision.remaining = 0;
        }
    }
    is_behind
}
