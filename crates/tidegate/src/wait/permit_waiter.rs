//! One who wants a permit, on the way to it: handed the time and a waker.

use std::sync::Arc;
use std::task::Waker;

use tidegate_core::{Micros, Timestamp};

use super::drive::Progress;
use super::hall::Hall;
use super::permits::{Permit, Permits};
use super::queue::Ticket;
use crate::key::Fingerprint;

/// One who wants a permit. Dropped, it leaves its line, and those behind it move up.
#[derive(Debug)]
pub(super) struct Wish<'a> {
    permits: &'a Arc<Permits>,
    key: Fingerprint,
    units: u64,
    max_wait: Micros,
    place: Option<Place>,
}

/// When it came, and how long it stands in the line.
#[derive(Clone, Copy, Debug)]
struct Place {
    ticket: Ticket,
    deadline: Timestamp,
}

impl<'a> Wish<'a> {
    /// It arrives when it is polled first.
    pub(super) const fn new(
        permits: &'a Arc<Permits>,
        key: Fingerprint,
        units: u64,
        max_wait: Micros,
    ) -> Self {
        Self { permits, key, units, max_wait, place: None }
    }

    /// Takes the permit if its turn has come, else waits or gives up. Not to be called again once it
    /// is done.
    pub(super) fn poll(&mut self, now: Timestamp, waker: &Waker) -> Progress<Option<Permit>> {
        let waker = waker.clone();
        let permits = self.permits;
        let mut hall = permits.lines.enter();
        hall.put_out(&self.key, now);
        let place = self.arrive(&mut hall, now);
        hall.announce(&self.key);
        let permit = self.ask(&hall, place);
        if permit.is_some() || self.gives_up(&hall, place, now) {
            hall.leave(&self.key, place.ticket);
            self.place = None;
            return Progress::Done(permit);
        }
        self.stand(&mut hall, place, waker)
    }

    /// Its place; another one if it was put out of the line.
    fn arrive(&mut self, hall: &mut Hall<'_, Fingerprint>, now: Timestamp) -> Place {
        let in_line = |place: &Place| is_in_line(hall, &self.key, place.ticket);
        match self.place.filter(in_line) {
            Some(place) => place,
            None => {
                let deadline = self.place.map(|place| place.deadline);
                let deadline = deadline.unwrap_or_else(|| now.plus(self.max_wait));
                *self.place.insert(Place { ticket: hall.ticket(), deadline })
            }
        }
    }

    fn ask(&self, hall: &Hall<'_, Fingerprint>, place: Place) -> Option<Permit> {
        let is_behind = self.units > 0 && hall.has_before(&self.key, place.ticket);
        (!is_behind).then(|| self.permits.take(self.key, self.units)).flatten()
    }

    /// Whether its time is over, or it can not ever be let in, or the line has no place for it.
    fn gives_up(&self, hall: &Hall<'_, Fingerprint>, place: Place, now: Timestamp) -> bool {
        let is_full = hall.len(&self.key) >= self.permits.max_waiters()
            && !is_in_line(hall, &self.key, place.ticket);
        is_full
            || now > place.deadline
            || self.max_wait.is_zero()
            || self.units > self.permits.limit()
    }

    fn stand(
        &self,
        hall: &mut Hall<'_, Fingerprint>,
        place: Place,
        waker: Waker,
    ) -> Progress<Option<Permit>> {
        if !is_in_line(hall, &self.key, place.ticket) {
            hall.join(&self.key, place.ticket, self.units, place.deadline);
        }
        hall.park(&self.key, place.ticket, waker, place.deadline);
        let over = place.deadline.plus(Micros::from_micros(1));
        let sleeper = hall.line(&self.key).and_then(|line| line.patience(place.ticket));
        Progress::AskAgainAt(sleeper.map_or(over, |sleeper| over.min(sleeper)))
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.permits.lines.enter().leave(&self.key, place.ticket);
        }
    }
}

fn is_in_line(hall: &Hall<'_, Fingerprint>, key: &Fingerprint, ticket: Ticket) -> bool {
    hall.line(key).is_some_and(|line| line.holds(ticket))
}
