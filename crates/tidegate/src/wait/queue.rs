//! One queue: who waits, in the order in which they came.

use std::task::Waker;

use smallvec::SmallVec;
use tidegate_core::{Micros, Timestamp};

use super::places::{Place, Places, Ticket};

/// How long after its deadline one that nobody polls may keep its place. A waiter leaves by itself at
/// its deadline; only one whose task is alive but asleep does not, and it must not hold up the others.
pub(super) const GRACE: Micros = Micros::from_secs(1);

/// How many of those who stand before somebody are told apart by their costs when it is forecast how long
/// that one waits: a bound on the work of joining a long queue.
const TOLD_APART: usize = 64;

/// Those who stand before somebody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// What the first of them cost, in their order.
    pub(crate) first: SmallVec<[u64; 8]>,
    /// What the others cost.
    pub(crate) others: u64,
}

/// One queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    places: Places,
    /// The last who went to sleep as the head, and so knows that it is.
    told: Option<Ticket>,
    /// The head that was to be woken while it asked.
    missed: Option<Ticket>,
}

impl Queue {
    /// How many wait.
    pub(crate) const fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether anybody came before `ticket`.
    pub(crate) fn has_before(&self, ticket: Ticket) -> bool {
        self.places.first().is_some_and(|place| place.ticket < ticket)
    }

    /// What those cost who came before `ticket`.
    pub(crate) fn costs_before(&self, ticket: Ticket) -> u64 {
        self.places.costs_before(ticket)
    }

    /// Those who came before `ticket`.
    pub(crate) fn before(&self, ticket: Ticket) -> Before {
        let first = self.places.before(ticket).take(TOLD_APART).map(|place| place.cost);
        let first: SmallVec<_> = first.collect();
        let costs = first.iter().fold(0_u64, |costs, cost| costs.saturating_add(*cost));
        Before { first, others: self.costs_before(ticket).saturating_sub(costs) }
    }

    /// Whether `ticket` waits here.
    pub(crate) fn holds(&self, ticket: Ticket) -> bool {
        self.places.get(ticket).is_some()
    }

    /// Puts `ticket`, which does not wait here, behind those who came before it.
    pub(crate) fn join(&mut self, ticket: Ticket, cost: u64, deadline: Timestamp) {
        self.places.insert(Place { ticket, cost, deadline, waker: None });
    }

    /// Takes `ticket` out; gives its waker, to be dropped where nothing is held.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Waker> {
        self.places.remove(ticket)?.waker
    }

    /// Lets `ticket` be woken by `waker` from now on, and not after `deadline`; gives the waker it
    /// had. A head that is told this way knows what it is.
    pub(crate) fn park(
        &mut self,
        ticket: Ticket,
        waker: Waker,
        deadline: Timestamp,
    ) -> Option<Waker> {
        if self.places.first()?.ticket == ticket {
            self.told = Some(ticket);
        }
        let park = |place: &mut Place| {
            place.deadline = deadline;
            place.waker.replace(waker)
        };
        self.places.change(ticket, park)?
    }

    /// When the one right before `ticket` may be put out, should it still be there.
    pub(crate) fn patience(&self, ticket: Ticket) -> Option<Timestamp> {
        self.places.right_before(ticket).map(|place| place.deadline.plus(GRACE))
    }

    /// Puts out who should have left long ago; gives their wakers.
    pub(crate) fn put_out(&mut self, now: Timestamp) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while self.places.earliest().is_some_and(|deadline| deadline.plus(GRACE) <= now) {
            let Some(place) = self.places.remove_earliest() else { break };
            wakers.extend(place.waker);
        }
        wakers
    }

    /// The waker of a head that does not know yet that it is one. No head is told twice.
    pub(crate) fn tell_head(&mut self) -> Option<Waker> {
        let head = self.places.first()?.ticket;
        if self.told == Some(head) {
            return None;
        }
        let waker = self.places.change(head, |place| place.waker.take())?;
        // It is asking, and cannot know whether what it hears is older than this.
        self.missed = waker.is_none().then_some(head);
        waker
    }

    /// Notes that `ticket` asks now: whatever was for it until now, it will hear of.
    #[cfg(feature = "redis")]
    pub(crate) fn asks(&mut self, ticket: Ticket) {
        self.missed = self.missed.filter(|missed| *missed != ticket);
    }

    /// Whether there may have come units for `ticket` since it asked.
    #[cfg(feature = "redis")]
    pub(crate) fn has_missed(&self, ticket: Ticket) -> bool {
        self.missed == Some(ticket)
    }

    /// Lets the head be told again: there may be units for it.
    pub(crate) fn wake(&mut self) {
        self.told = None;
    }
}
