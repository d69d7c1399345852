//! Receivers that wait for an item.

use std::task::Waker;

/// The wakers of all receivers that found nothing due.
///
/// Wakers that are no longer needed are returned, so that they are dropped outside of the lock: one
/// may be the last owner of a task, and the task may have receivers of its own.
#[derive(Debug, Default)]
pub(super) struct Takers {
    waiting: Vec<(TakerTicket, Waker)>,
    tickets: u64,
}

/// Identifies one receiver of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TakerTicket(u64);

impl Takers {
    pub(super) fn ticket(&mut self) -> TakerTicket {
        self.tickets += 1;
        TakerTicket(self.tickets)
    }

    /// Registers `waker` for the next change; returns the previous one.
    pub(super) fn wait(&mut self, ticket: TakerTicket, waker: Waker) -> Option<Waker> {
        let before = self.forget(ticket);
        self.waiting.push((ticket, waker));
        before
    }

    pub(super) fn forget(&mut self, ticket: TakerTicket) -> Option<Waker> {
        let index = self.waiting.iter().position(|(waiting, _)| *waiting == ticket)?;
        Some(self.waiting.swap_remove(index).1)
    }

    /// Removes and returns all wakers; receivers that still wait register again.
    pub(super) fn all(&mut self) -> Vec<Waker> {
        self.waiting.drain(..).map(|(_, waker)| waker).collect()
    }
}
