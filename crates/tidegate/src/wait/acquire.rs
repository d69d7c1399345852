//! Runs a waiter to its end, as a task or by blocking a thread.

use std::future::poll_fn;

use tidegate_core::{Micros, Outcome, Timestamp};

use super::drive::{Alarm, block, wait_until};
use super::waitable::{InProcess, Waitable, step_behind};
use super::waiter::Waiter;
use crate::clock::{Park, Timer};
use crate::step::{Done, Step};

impl<D: InProcess> Waiter<D> {
    /// Waits as a task until the request is decided. Dropping the future leaves no trace.
    pub(crate) async fn decided(&mut self, timer: &impl Timer) -> Done {
        if self.never_waits() {
            return step_behind(self.waitable(), Step::Ask);
        }
        let mut alarm = Alarm::default();
        poll_fn(|context| alarm.drive(timer, context, |now, waker| self.poll(now, waker))).await
    }

    /// Does what [`Waiter::decided`] does, but blocks the thread.
    pub(crate) fn decided_blocking(&mut self, clock: &impl Park) -> Done {
        if self.never_waits() {
            return step_behind(self.waitable(), Step::Ask);
        }
        block(clock, |now, waker| self.poll(now, waker))
    }

    /// Resolves when the admitted work may run. If the future is dropped before, the work keeps its
    /// slot.
    pub(crate) async fn hold(&self, mut done: Done, timer: &impl Timer) -> Done {
        if let Some(runs_at) = take_delay(self.waitable(), &mut done) {
            wait_until(timer, runs_at).await;
        }
        done
    }

    /// Does what [`Waiter::hold`] does, but blocks the thread.
    pub(crate) fn hold_blocking(&self, mut done: Done, clock: &impl Park) -> Done {
        if let Some(runs_at) = take_delay(self.waitable(), &mut done) {
            while clock.now() < runs_at {
                clock.park_until(runs_at);
            }
        }
        done
    }

    /// Returns whether no limiter lets this request wait, and its delay does not count as waiting. The request is then
    /// decided without joining a queue.
    fn never_waits(&self) -> bool {
        let waitable = self.waitable();
        !waitable.delay_is_waiting()
            && waitable.stops().iter().all(|stop| stop.patience.wait.is_zero())
    }
}

/// Returns when the work may run, if it has to be held, and clears the delay of the answer, which
/// has passed by then.
fn take_delay<D: Waitable>(waitable: &D, done: &mut Done) -> Option<Timestamp> {
    let delay = if done.allowed { waitable.delay(done) } else { Micros::ZERO };
    for decided in &mut done.decisions {
        if let Outcome::Allow { delay } = &mut decided.decision.outcome {
            *delay = Micros::ZERO;
        }
    }
    (!delay.is_zero()).then(|| done.at.plus(delay))
}
