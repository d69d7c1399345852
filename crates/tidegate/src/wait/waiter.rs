//! One request's way to its answer: a state machine that is handed the time and a waker.

use std::task::Waker;

use tidegate_core::Timestamp;

use super::asking::Asking;
use super::door::{AtHand, Door};
use super::drive::Progress;
use super::queue::Ticket;
use crate::step::Done;

/// A request on its way. Dropped, it leaves the line it stands in, and those behind it move up.
#[derive(Debug)]
pub(crate) struct Turn<D: Door> {
    door: D,
    place: Option<Place>,
}

/// When it came, and where it stands.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) ticket: Ticket,
    pub(super) arrived: Timestamp,
    /// The last instant at which it may be admitted.
    pub(super) deadline: Timestamp,
    /// The number of the stop in whose line it stands.
    pub(super) stands: Option<usize>,
}

impl<D: Door> Turn<D> {
    /// It arrives when it is polled first.
    pub(crate) const fn new(door: D) -> Self {
        Self { door, place: None }
    }

    /// Holds all lines; who comes for the first time is given a ticket.
    fn held<T>(&mut self, now: Timestamp, with: impl FnOnce(Asking<'_, '_, D>) -> T) -> T {
        let mut hall = self.door.lines().enter();
        let place = self.place.get_or_insert_with(|| Place {
            ticket: hall.ticket(),
            arrived: now,
            deadline: Timestamp::MAX,
            stands: None,
        });
        with(Asking { door: &self.door, hall: &mut hall, place })
    }

    /// The door it leads to.
    pub(crate) const fn door(&self) -> &D {
        &self.door
    }
}

impl<D: AtHand> Turn<D> {
    /// Takes what it came for if its turn has come, else waits or gives up. Not to be called again
    /// once it is done.
    pub(crate) fn poll(&mut self, now: Timestamp, waker: &Waker) -> Progress<Done> {
        let waker = waker.clone();
        self.held(now, |asking| asking.poll(now, waker))
    }
}

/// For a door whose limiters do not answer at once: what they told is brought here, and lines are held
/// only for as long as it takes to make something of it.
#[cfg(feature = "redis")]
impl<D: Door> Turn<D> {
    /// Whether somebody stands before it. Who comes for the first time arrives here.
    pub(crate) fn is_behind(&mut self, now: Timestamp) -> bool {
        self.held(now, |mut asking| asking.is_behind(now))
    }

    /// What those cost who stand before it at each limiter, with the places of those.
    pub(crate) fn costs_before(&self) -> Vec<(usize, u64)> {
        let ticket = self.place.as_ref().map_or(Ticket::MAX, |place| place.ticket);
        let hall = self.door.lines().enter();
        let costs = self.door.stops().iter().map(|stop| {
            let line = hall.line(&stop.line);
            (stop.place, line.map_or(0, |line| line.costs_before(ticket)))
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

    /// The number of the stop in whose line it stands.
    pub(crate) fn stands(&self) -> Option<usize> {
        self.place.as_ref()?.stands
    }

    /// The same door, to be told what was seen behind it.
    pub(crate) const fn door_mut(&mut self) -> &mut D {
        &mut self.door
    }
}

impl<D: Door> Drop for Turn<D> {
    fn drop(&mut self) {
        let Some(place) = &self.place else { return };
        if let Some(stop) = place.stands.and_then(|stands| self.door.stops().get(stands)) {
            self.door.lines().enter().leave(&stop.line, place.ticket);
        }
    }
}
