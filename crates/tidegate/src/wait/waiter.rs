//! The waiter of one request: a state machine that is given the time and a waker.

mod attempt;

use std::task::Waker;

use tidegate_core::Timestamp;

use super::drive::AttemptResult;
use super::places::Ticket;
#[cfg(feature = "redis")]
use super::sums::Sums;
use super::waitable::{InProcess, Waitable};
use crate::step::Done;
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
            (stop.place, queue.map_or(Sums::NONE, |queue| queue.sums_before(ticket)))
        });
        sums.collect()
    }

    /// Waits or gives up after the replies of its limiters, which decided or were only `looked` at.
    /// Returns `None` if nothing is in the way and the waiter can ask. Must not be called again
    /// when it is done.
    pub(crate) fn hear(
        &mut self,
        seen: Done,
        looked: bool,
        now: Timestamp,
        waker: &Waker,
    ) -> Option<AttemptResult<Done>> {
        let waker = waker.clone();
        self.held(now, |asking| asking.hear(seen, looked, waker))
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
        let Some(place) = &self.place else { return };
        if let Some(stop) = place.stands.and_then(|stands| self.waitable.stops().get(stands)) {
            self.waitable.queues().lock().leave(&stop.queue, place.ticket);
        }
    }
}
