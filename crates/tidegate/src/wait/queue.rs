//! One line: who waits, in the order in which they came.

use std::collections::VecDeque;
use std::task::Waker;

use tidegate_core::{Micros, Timestamp};

/// How long after its deadline one that nobody polls may keep its place. A waiter leaves by itself at
/// its deadline; only one whose task is alive but asleep does not, and it must not hold up the others.
pub(super) const GRACE: Micros = Micros::from_secs(1);

/// The number of one who waits, in the order of arrival.
pub(super) type Ticket = u64;

/// A place in a line.
#[derive(Debug)]
struct Place {
    ticket: Ticket,
    cost: u64,
    deadline: Timestamp,
    waker: Option<Waker>,
}

/// Places by the order of their tickets.
#[derive(Debug, Default)]
pub(super) struct Queue {
    places: VecDeque<Place>,
    /// The last who went to sleep as the head, and so knows that it is.
    told: Option<Ticket>,
}

impl Queue {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many came before `ticket`.
    pub(super) fn before(&self, ticket: Ticket) -> usize {
        self.places.partition_point(|place| place.ticket < ticket)
    }

    /// What those cost who came before `ticket`, in their order.
    pub(super) fn costs_before(&self, ticket: Ticket) -> impl Iterator<Item = u64> {
        self.places.range(..self.before(ticket)).map(|place| place.cost)
    }

    /// Whether `ticket` waits here.
    pub(super) fn holds(&self, ticket: Ticket) -> bool {
        self.place(ticket).is_some()
    }

    /// Puts `ticket`, which does not wait here, behind those who came before it.
    pub(super) fn join(&mut self, ticket: Ticket, cost: u64, deadline: Timestamp) {
        let place = Place { ticket, cost, deadline, waker: None };
        self.places.insert(self.before(ticket), place);
    }

    /// Takes `ticket` out; gives its waker, to be dropped where nothing is held.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Waker> {
        let index = self.place(ticket)?;
        self.places.remove(index)?.waker
    }

    /// Lets `ticket` be woken by `waker` from now on, and not after `deadline`; gives the waker it
    /// had. A head that is told this way knows what it is.
    pub(super) fn park(
        &mut self,
        ticket: Ticket,
        waker: Waker,
        deadline: Timestamp,
    ) -> Option<Waker> {
        let index = self.place(ticket)?;
        if index == 0 {
            self.told = Some(ticket);
        }
        let place = self.places.get_mut(index)?;
        place.deadline = deadline;
        place.waker.replace(waker)
    }

    /// When the one right before `ticket` may be put out, should it still be there.
    pub(super) fn patience(&self, ticket: Ticket) -> Option<Timestamp> {
        let before = self.before(ticket).checked_sub(1)?;
        self.places.get(before).map(|place| place.deadline.plus(GRACE))
    }

    /// Puts out who should have left long ago; gives their wakers.
    pub(super) fn put_out(&mut self, now: Timestamp) -> Vec<Waker> {
        let late = |place: &Place| place.deadline.plus(GRACE) <= now;
        if !self.places.iter().any(late) {
            return Vec::new();
        }
        let (out, stay) = std::mem::take(&mut self.places).into_iter().partition(late);
        self.places = stay;
        let out: VecDeque<Place> = out;
        out.into_iter().filter_map(|place| place.waker).collect()
    }

    /// The waker of a head that does not know yet that it is one. No head is told twice.
    pub(super) fn tell_head(&mut self) -> Option<Waker> {
        let head = self.places.front_mut()?;
        if self.told == Some(head.ticket) { None } else { head.waker.take() }
    }

    /// Lets the head be told again: there may be units for it.
    pub(super) fn stir(&mut self) {
        self.told = None;
    }

    fn place(&self, ticket: Ticket) -> Option<usize> {
        self.places.binary_search_by_key(&ticket, |place| place.ticket).ok()
    }
}
