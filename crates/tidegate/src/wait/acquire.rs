//! Waiting to the end, as a task or as a thread.

use std::future::poll_fn;

use tidegate_core::{Micros, Outcome, Timestamp};

use super::drive::{Alarm, block, wait_until};
use super::waitable::{InProcess, Waitable, step_behind};
use super::waiter::Waiter;
use crate::clock::{Park, Timer};
use crate::step::{Done, Step};

impl<D: InProcess> Waiter<D> {
    /// Waits as a task until it is decided. Dropped while it waits, it leaves no trace.
    pub(crate) async fn decided(&mut self, timer: &impl Timer) -> Done {
        if self.never_waits() {
            return step_behind(self.waitable(), Step::Ask);
        }
        let mut alarm = Alarm::default();
        poll_fn(|context| alarm.drive(timer, context, |now, waker| self.poll(now, waker))).await
    }

    /// What [`Waiter::decided`] does, by blocking the thread.
    pub(crate) fn decided_blocking(&mut self, clock: &impl Park) -> Done {
        if self.never_waits() {
            return step_behind(self.waitable(), Step::Ask);
        }
        block(clock, |now, waker| self.poll(now, waker))
    }

    /// Ends when the work may run that was decided. Dropped before, the work keeps its slot.
    pub(crate) async fn hold(&self, mut done: Done, timer: &impl Timer) -> Done {
        if let Some(runs_at) = release(self.waitable(), &mut done) {
            wait_until(timer, runs_at).await;
        }
        done
    }

    /// What [`Waiter::hold`] does, by blocking the thread.
    pub(crate) fn hold_blocking(&self, mut done: Done, clock: &impl Park) -> Done {
        if let Some(runs_at) = release(self.waitable(), &mut done) {
            while clock.now() < runs_at {
                clock.park_until(runs_at);
            }
        }
        done
    }

    /// Whether every limiter would refuse it at once, so that it need not stand in a queue to be decided.
    fn never_waits(&self) -> bool {
        let waitable = self.waitable();
        !waitable.delay_is_waiting()
            && waitable.stops().iter().all(|stop| stop.patience.wait.is_zero())
    }
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
