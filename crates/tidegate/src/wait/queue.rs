//! One queue: the waiters of one limiter, in order of arrival.
//!
//! The head asks again when its forecast says or when it is woken; each other waiter is woken when it becomes the
//! head. The queue knows which head was told that it is the head (`notified`), and which head was to be woken while
//! it was asking (`missed`), so that no wake is lost.

use std::task::Waker;

use smallvec::SmallVec;
use tidegate_core::{Micros, Timestamp};

use super::places::{Places, QueuePlace, Sums, Ticket};

/// The time after its deadline for which a waiter that no task polls may keep its place. A waiter normally
/// leaves at its deadline; one whose task is alive but not polled must not block the others for
/// longer.
pub(super) const GRACE: Micros = Micros::from_secs(1);

/// The number of earlier waiters that a forecast admits one by one; the rest count as one sum. This bounds
/// the work of joining a long queue.
const ONE_BY_ONE: usize = 64;

/// The waiters before a given one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// The costs of the first of them, in order.
    pub(crate) first: SmallVec<[u64; 8]>,
    /// The sum of the other costs.
    pub(crate) others: u64,
}

/// The queue of one limiter.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    places: Places,
    /// The last waiter that went to sleep as the head, and so knows that it is the head.
    notified: Option<Ticket>,
    /// The head that was to be woken during its attempt.
    missed: Option<Ticket>,
}

impl Queue {
    /// The number of waiters.
    pub(crate) const fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether a waiter came before `ticket`.
    pub(crate) fn has_before(&self, ticket: Ticket) -> bool {
        self.places.first().is_some_and(|place| place.ticket < ticket)
    }

    /// The sums of the waiters before `ticket`.
    pub(crate) fn sums_before(&self, ticket: Ticket) -> Sums {
        self.places.sums_before(ticket)
    }

    /// The waiters before `ticket`.
    pub(crate) fn before(&self, ticket: Ticket) -> Before {
        let first = self.places.before(ticket).take(ONE_BY_ONE).map(|place| place.cost);
        let first: SmallVec<_> = first.collect();
        let costs = first.iter().fold(0_u64, |costs, cost| costs.saturating_add(*cost));
        Before { first, others: self.sums_before(ticket).costs.saturating_sub(costs) }
    }

    /// Returns whether `ticket` waits here.
    pub(crate) fn holds(&self, ticket: Ticket) -> bool {
        self.places.get(ticket).is_some()
    }

    /// Inserts `ticket`, which is not in the queue yet, by its order of arrival.
    pub(crate) fn join(&mut self, ticket: Ticket, cost: u64, deadline: Timestamp) {
        self.places.insert(QueuePlace { ticket, cost, deadline, waker: None });
    }

    /// Removes `ticket`; returns its waker, which the caller drops outside of the lock.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Waker> {
        self.places.remove(ticket)?.waker
    }

    /// Stores `waker` for `ticket`, with its `deadline`; returns the previous waker. A head that
    /// goes to sleep here knows that it is the head.
    pub(crate) fn park(
        &mut self,
        ticket: Ticket,
        waker: Waker,
        deadline: Timestamp,
    ) -> Option<Waker> {
        if self.places.first()?.ticket == ticket {
            self.notified = Some(ticket);
        }
        // The deadline may have become earlier with this attempt, and eviction goes by it.
        self.places.change(ticket, |place| {
            place.deadline = deadline;
            place.waker.replace(waker)
        })?
    }

    /// When the waiter right before `ticket` may be evicted if it is still there.
    pub(crate) fn patience(&self, ticket: Ticket) -> Option<Timestamp> {
        self.places.right_before(ticket).map(|place| place.deadline.plus(GRACE))
    }

    /// Evicts waiters whose deadline is long over; returns their wakers.
    pub(crate) fn evict(&mut self, now: Timestamp) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while self.places.earliest().is_some_and(|deadline| deadline.plus(GRACE) <= now) {
            let Some(place) = self.places.remove_earliest() else { break };
            wakers.extend(place.waker);
        }
        wakers
    }

    /// Returns the waker of a head that does not know yet that it is the head. Each head is
    /// notified once.
    pub(crate) fn head_to_wake(&mut self) -> Option<Waker> {
        let head = self.places.first()?.ticket;
        if self.notified == Some(head) {
            return None;
        }
        let waker = self.places.change(head, |place| place.waker.take())?;
        // The head is making an attempt, and cannot know whether the reply it gets is older than
        // this wake-up.
        self.missed = waker.is_none().then_some(head);
        waker
    }

    /// Notes that `ticket` starts an attempt, which will see every unit freed so far.
    #[cfg(feature = "redis")]
    pub(crate) fn asks(&mut self, ticket: Ticket) {
        self.missed = self.missed.filter(|missed| *missed != ticket);
    }

    /// Returns whether units may have become free for `ticket` since its last attempt started.
    #[cfg(feature = "redis")]
    pub(crate) fn has_missed(&self, ticket: Ticket) -> bool {
        self.missed == Some(ticket)
    }

    /// Lets the head be notified again, because units may be free.
    pub(crate) fn wake(&mut self) {
        self.notified = None;
    }
}
