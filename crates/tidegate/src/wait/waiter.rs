//! The waiter of one request: a state machine that is given the time and a waker.
//!
//! A call of `acquire` makes a waiter and polls it until it is done. Each poll is one [`Attempt`], with all queues
//! locked; over a shared store, whose replies take time, they are locked only while a reply is handled. A *stop* is
//! a limiter that can refuse the request, with the queue in front of it (`QueuedLimiter`).

mod attempt;

use std::future::poll_fn;
use std::task::Waker;

use tidegate_core::{Micros, Outcome, Timestamp};

use super::drive::{Alarm, AttemptResult, block, wait_until};
#[cfg(feature = "redis")]
use super::places::Sums;
use super::places::Ticket;
use super::waitable::{InProcess, Waitable, step_behind};
use crate::clock::{Park, Timer};
use crate::step::{Done, Step};
use attempt::Attempt;

/// A request that may have to wait. When dropped, it leaves its queue, and later requests move up.
#[derive(Debug)]
pub(crate) struct Waiter<D: Waitable> {
    waitable: D,
    place: Option<WaiterPlace>,
}

/// The arrival of the request, and its place in a queue.
#[derive(Debug)]
pub(super) struct WaiterPlace {
    pub(super) ticket: Ticket,
    pub(super) arrived: Timestamp,
    /// The last instant at which the request may be admitted.
    pub(super) deadline: Timestamp,
    /// The index of the stop in whose queue it waits.
    pub(super) stands: Option<usize>,
}

impl<D: Waitable> Waiter<D> {
    /// Creates a waiter; it arrives when it is first polled.
    pub(crate) const fn new(waitable: D) -> Self {
        Self { waitable, place: None }
    }

    /// Locks all queues; the first call gives the waiter a ticket.
    fn held<T>(&mut self, now: Timestamp, with: impl FnOnce(Attempt<'_, '_, D>) -> T) -> T {
        let mut held = self.waitable.queues().lock();
        let place = self.place.get_or_insert_with(|| WaiterPlace {
            ticket: held.ticket(),
            arrived: now,
            deadline: Timestamp::MAX,
            stands: None,
        });
        with(Attempt { waitable: &self.waitable, held: &mut held, place })
    }

    /// The request's limiters and queues.
    pub(crate) const fn waitable(&self) -> &D {
        &self.waitable
    }
}

impl<D: InProcess> Waiter<D> {
    /// Takes the units if it is the waiter's turn, else waits or gives up. Must not be called again
    /// when it is done.
    pub(crate) fn poll(&mut self, now: Timestamp, waker: &Waker) -> AttemptResult<Done> {
        // Code of the runtime, so it runs before the queues are locked.
        let waker = waker.clone();
        self.held(now, |asking| asking.poll(now, waker))
    }
}

/// For a waitable whose limiters do not reply immediately: the caller passes their replies in, and
/// the queues are locked only while one is handled.
#[cfg(feature = "redis")]
impl<D: Waitable> Waiter<D> {
    /// Returns whether an earlier waiter is in the way. The first call is the arrival.
    pub(crate) fn is_behind(&mut self, now: Timestamp) -> bool {
        self.held(now, |mut asking| asking.is_behind(now))
    }

    /// For each limiter, the index of its decision and the sums of earlier waiters.
    pub(crate) fn sums_before(&self) -> Vec<(usize, Sums)> {
        let ticket = self.place.as_ref().map_or(Ticket::MAX, |place| place.ticket);
        let held = self.waitable.queues().lock();
        let sums = self.waitable.stops().iter().map(|stop| {
            let queue = held.queue(&stop.queue);
            (stop.index, queue.map_or(Sums::NONE, |queue| queue.sums_before(ticket)))
        });
        sums.collect()
    }

    /// Waits or gives up after the replies of its limiters, which decided or were only `looked` at.
    /// Returns `None` if nothing is in the way and the waiter can ask. Must not be called again
    /// when it is done.
    pub(crate) fn handle_replies(
        &mut self,
        seen: Done,
        looked: bool,
        now: Timestamp,
        waker: &Waker,
    ) -> Option<AttemptResult<Done>> {
        let waker = waker.clone();
        self.held(now, |asking| asking.handle_replies(seen, looked, waker))
    }

    /// The index of the stop in whose queue it waits.
    pub(crate) fn stands(&self) -> Option<usize> {
        self.place.as_ref()?.stands
    }

    /// The request's limiters and queues, to store replies in them.
    pub(crate) const fn waitable_mut(&mut self) -> &mut D {
        &mut self.waitable
    }
}

impl<D: Waitable> Drop for Waiter<D> {
    fn drop(&mut self) {
        // A waiter that was never polled has not arrived, and stands nowhere.
        let Some(place) = &self.place else { return };
        if let Some(stop) = place.stands.and_then(|stands| self.waitable.stops().get(stands)) {
            self.waitable.queues().lock().leave(&stop.queue, place.ticket);
        }
    }
}

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
            // A parked thread may wake early.
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
