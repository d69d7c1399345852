//! One request's way to its answer: a state machine that is handed the time and a waker.

mod attempt;

use std::task::Waker;

use tidegate_core::Timestamp;

use super::drive::Progress;
use super::places::Ticket;
use super::waitable::{InProcess, Waitable};
use crate::step::Done;
use attempt::Attempt;

/// A request on its way. Dropped, it leaves the queue it stands in, and those behind it move up.
#[derive(Debug)]
pub(crate) struct Waiter<D: Waitable> {
    waitable: D,
    place: Option<Place>,
}

/// When it came, and where it stands.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) ticket: Ticket,
    pub(super) arrived: Timestamp,
    /// The last instant at which it may be admitted.
    pub(super) deadline: Timestamp,
    /// The number of the stop in whose queue it stands.
    pub(super) stands: Option<usize>,
}

impl<D: Waitable> Waiter<D> {
    /// It arrives when it is polled first.
    pub(crate) const fn new(waitable: D) -> Self {
        Self { waitable, place: None }
    }

    /// Holds all queues; who comes for the first time is given a ticket.
    fn held<T>(&mut self, now: Timestamp, with: impl FnOnce(Attempt<'_, '_, D>) -> T) -> T {
        let mut held = self.waitable.queues().lock();
        let place = self.place.get_or_insert_with(|| Place {
            ticket: held.ticket(),
            arrived: now,
            deadline: Timestamp::MAX,
            stands: None,
        });
        with(Attempt { waitable: &self.waitable, held: &mut held, place })
    }

    /// The waitable it leads to.
    pub(crate) const fn waitable(&self) -> &D {
        &self.waitable
    }
}

impl<D: InProcess> Waiter<D> {
    /// Takes what it came for if its turn has come, else waits or gives up. Not to be called again
    /// once it is done.
    pub(crate) fn poll(&mut self, now: Timestamp, waker: &Waker) -> Progress<Done> {
        let waker = waker.clone();
        self.held(now, |asking| asking.poll(now, waker))
    }
}

/// For a waitable whose limiters do not answer at once: what they told is brought here, and queues are held
/// only for as long as it takes to make something of it.
#[cfg(feature = "redis")]
impl<D: Waitable> Waiter<D> {
    /// Whether somebody stands before it. Who comes for the first time arrives here.
    pub(crate) fn is_behind(&mut self, now: Timestamp) -> bool {
        self.held(now, |mut asking| asking.is_behind(now))
    }

    /// What those cost who stand before it at each limiter, with the places of those.
    pub(crate) fn costs_before(&self) -> Vec<(usize, u64)> {
        let ticket = self.place.as_ref().map_or(Ticket::MAX, |place| place.ticket);
        let held = self.waitable.queues().lock();
        let costs = self.waitable.stops().iter().map(|stop| {
            let queue = held.queue(&stop.queue);
            (stop.place, queue.map_or(0, |queue| queue.costs_before(ticket)))
        });
        costs.collect()
    }

    /// Waits or gives up, after what its limiters told, which were asked, or only `looked` at; `None`
    /// where it can ask, for nothing is in its way. Not to be called again once it is done.
    pub(crate) fn hear(
        &mut self,
        seen: Done,
        looked: bool,
        now: Timestamp,
        waker: &Waker,
    ) -> Option<Progress<Done>> {
        let waker = waker.clone();
        self.held(now, |asking| asking.hear(seen, looked, waker))
    }

    /// The number of the stop in whose queue it stands.
    pub(crate) fn stands(&self) -> Option<usize> {
        self.place.as_ref()?.stands
    }

    /// The same waitable, to keep what its limiters replied.
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
