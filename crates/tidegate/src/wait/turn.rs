//! One request's way to its answer: a state machine that is handed the time and a waker.

use std::task::Waker;

use tidegate_core::Timestamp;

use super::asking::Asking;
use super::door::Door;
use super::drive::Progress;
use super::queue::Ticket;
use crate::store::memory::Done;

/// A request on its way. Dropped, it leaves the line it stands in, and those behind it move up.
#[derive(Debug)]
pub(super) struct Turn<D: Door> {
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
    pub(super) const fn new(door: D) -> Self {
        Self { door, place: None }
    }

    /// Takes what it came for if its turn has come, else waits or gives up. Not to be called again
    /// once it is done.
    pub(super) fn poll(&mut self, now: Timestamp, waker: &Waker) -> Progress<Done> {
        let waker = waker.clone();
        let mut hall = self.door.lines().enter();
        let place = self.place.get_or_insert_with(|| Place {
            ticket: hall.ticket(),
            arrived: now,
            deadline: Timestamp::MAX,
            stands: None,
        });
        Asking { door: &self.door, hall: &mut hall, place }.poll(now, waker)
    }

    /// The door it leads to.
    pub(super) const fn door(&self) -> &D {
        &self.door
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
