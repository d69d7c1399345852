//! Waiting for limiters to the end, as a task or as a thread.

use std::future::poll_fn;

use tidegate_core::{Micros, Outcome, Timestamp};

use super::drive::{Alarm, block, wait_until};
use super::waitable::{InProcess, Waitable, step_behind};
use super::waiter::Waiter;
use crate::clock::{Park, Timer};
use crate::step::{Done, Step};

/// Waits as a task; ends when the work may run, or is refused. Dropped while it waits, it leaves no
/// trace; dropped while an admitted request is held, that keeps its slot.
pub(crate) async fn wait<D: InProcess>(waitable: D, timer: &impl Timer) -> Done {
    let mut waiter = Waiter::new(waitable);
    let done = decided(&mut waiter, timer).await;
    hold(waiter.waitable(), done, timer).await
}

/// Waits as [`wait`] does, but ends when it is admitted: the work must be held for the delay of the decision.
pub(crate) async fn wait_in_queue<D: InProcess>(waitable: D, timer: &impl Timer) -> Done {
    decided(&mut Waiter::new(waitable), timer).await
}

async fn decided<D: InProcess>(waiter: &mut Waiter<D>, timer: &impl Timer) -> Done {
    if never_waits(waiter.waitable()) {
        return step_behind(waiter.waitable(), Step::Ask);
    }
    let mut alarm = Alarm::default();
    poll_fn(|context| alarm.drive(timer, context, |now, waker| waiter.poll(now, waker))).await
}

/// Ends when the work may run that was decided.
pub(crate) async fn hold<D: Waitable>(waitable: &D, mut done: Done, timer: &impl Timer) -> Done {
    if let Some(runs_at) = release(waitable, &mut done) {
        wait_until(timer, runs_at).await;
    }
    done
}

/// Whether every limiter would refuse it at once, so that it need not stand in a queue to be decided.
fn never_waits<D: Waitable>(waitable: &D) -> bool {
    !waitable.delay_is_waiting() && waitable.stops().iter().all(|stop| stop.patience.wait.is_zero())
}

/// What [`wait`] does, by blocking the thread.
pub(crate) fn wait_blocking<D: InProcess>(waitable: D, clock: &impl Park) -> Done {
    let mut waiter = Waiter::new(waitable);
    let done = block(clock, |now, waker| waiter.poll(now, waker));
    hold_blocking(waiter.waitable(), done, clock)
}

/// What [`hold`] does, by blocking the thread.
pub(crate) fn hold_blocking<D: Waitable>(waitable: &D, mut done: Done, clock: &impl Park) -> Done {
    if let Some(runs_at) = release(waitable, &mut done) {
        while clock.now() < runs_at {
            clock.park_until(runs_at);
        }
    }
    done
}

/// When the work may run, if not at once; the answer has no delay, for it has passed by then.
fn release<D: Waitable>(waitable: &D, done: &mut Done) -> Option<Timestamp> {
    let delay = if done.allowed { waitable.delay(done) } else { Micros::ZERO };
    for decided in &mut done.decisions {
        if let Outcome::Allow { delay } = &mut decided.decision.outcome {
            *delay = Micros::ZERO;
        }
    }
    (!delay.is_zero()).then(|| done.at.plus(delay))
}
