//! Who waits for an item, each to be woken when there is news.

use std::task::Waker;

/// The wakers of all receivers that found nothing due.
///
/// A waker that is no longer wanted is handed back, to be dropped where nothing is held: it may be the
/// last thing that keeps a task alive, and the task may have receivers of its own.
#[derive(Debug, Default)]
pub(super) struct Takers {
    waiting: Vec<(Ticket, Waker)>,
    tickets: u64,
}

/// Names one receiver of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl Takers {
    pub(super) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// Has `waker` woken at the next news; answers the one it had before.
    pub(super) fn wait(&mut self, ticket: Ticket, waker: Waker) -> Option<Waker> {
        let before = self.forget(ticket);
        self.waiting.push((ticket, waker));
        before
    }

    /// Leaves no trace of a receiver.
    pub(super) fn forget(&mut self, ticket: Ticket) -> Option<Waker> {
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == ticket)?;
        Some(self.waiting.swap_remove(place).1)
    }

    /// All who wait; they come again if they still want.
    pub(super) fn all(&mut self) -> Vec<Waker> {
        self.waiting.drain(..).map(|(_, waker)| waker).collect()
    }
}
