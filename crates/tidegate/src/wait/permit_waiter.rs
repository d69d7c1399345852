//! One who wants a permit, on the way to it: handed the time and a waker.

use std::sync::Arc;
use std::task::Waker;

use tidegate_core::{Micros, Timestamp};

use super::drive::Progress;
use super::permits::{Permit, Permits};
use super::places::Ticket;
use super::queues::HeldQueues;
use crate::key::Fingerprint;

/// One who wants a permit. Dropped, it leaves its queue, and those behind it move up.
#[derive(Debug)]
pub(super) struct PermitWaiter<'a> {
    permits: &'a Arc<Permits>,
    key: Fingerprint,
    units: u64,
    max_wait: Micros,
    place: Option<Place>,
}

/// When it came, and how long it stands in the queue.
#[derive(Clone, Copy, Debug)]
struct Place {
    ticket: Ticket,
    deadline: Timestamp,
}

impl<'a> PermitWaiter<'a> {
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
        let mut held = permits.queues.lock();
        held.put_out(&self.key, now);
        let place = self.arrive(&mut held, now);
        held.announce(&self.key);
        let permit = self.ask(&held, place);
        if permit.is_some() || self.gives_up(&held, place, now) {
            held.leave(&self.key, place.ticket);
            self.place = None;
            return Progress::Done(permit);
        }
        self.stand(&mut held, place, waker)
    }

    /// Its place; another one if it was put out of the queue.
    fn arrive(&mut self, held: &mut HeldQueues<'_, Fingerprint>, now: Timestamp) -> Place {
        let in_line = |place: &Place| is_in_line(held, &self.key, place.ticket);
        match self.place.filter(in_line) {
            Some(place) => place,
            None => {
                let deadline = self.place.map(|place| place.deadline);
                let deadline = deadline.unwrap_or_else(|| now.plus(self.max_wait));
                *self.place.insert(Place { ticket: held.ticket(), deadline })
            }
        }
    }

    fn ask(&self, held: &HeldQueues<'_, Fingerprint>, place: Place) -> Option<Permit> {
        let is_behind = self.units > 0 && held.has_before(&self.key, place.ticket);
        (!is_behind).then(|| self.permits.take(self.key, self.units)).flatten()
    }

    /// Whether its time is over, or it can not ever be let in, or the queue has no place for it.
    fn gives_up(&self, held: &HeldQueues<'_, Fingerprint>, place: Place, now: Timestamp) -> bool {
        let is_full = held.len(&self.key) >= self.permits.max_waiters()
            && !is_in_line(held, &self.key, place.ticket);
        is_full
            || now > place.deadline
            || self.max_wait.is_zero()
            || self.units > self.permits.limit()
    }

    fn stand(
        &self,
        held: &mut HeldQueues<'_, Fingerprint>,
        place: Place,
        waker: Waker,
    ) -> Progress<Option<Permit>> {
        if !is_in_line(held, &self.key, place.ticket) {
            held.join(&self.key, place.ticket, self.units, place.deadline);
        }
        held.park(&self.key, place.ticket, waker, place.deadline);
        let over = place.deadline.plus(Micros::from_micros(1));
        let sleeper = held.queue(&self.key).and_then(|queue| queue.patience(place.ticket));
        Progress::AskAgainAt(sleeper.map_or(over, |sleeper| over.min(sleeper)))
    }
}

impl Drop for PermitWaiter<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.permits.queues.lock().leave(&self.key, place.ticket);
        }
    }
}

fn is_in_line(held: &HeldQueues<'_, Fingerprint>, key: &Fingerprint, ticket: Ticket) -> bool {
    held.queue(key).is_some_and(|queue| queue.holds(ticket))
}
