//! The state that all handles of a shaper share: the queue, its receivers, and the clock.
//!
//! Every verb of a handle is one [`ShaperState::step`] under the lock, which wakes the receivers if the first item
//! is now due sooner, or if no item will come any more.

use std::sync::PoisonError;
use std::task::Waker;

use tidegate_core::Timestamp;

use super::queue::{Next, ShapingQueue};
use crate::clock::Clock;
use crate::sync::{Mutex, MutexGuard};

pub(super) struct ShaperState<T, C> {
    clock: C,
    guarded: Mutex<Guarded<T>>,
}

struct Guarded<T> {
    queue: ShapingQueue<T>,
    takers: Takers,
}

impl<T, C> ShaperState<T, C> {
    pub(super) const fn clock(&self) -> &C {
        &self.clock
    }

    pub(super) fn ticket(&self) -> TakerTicket {
        self.lock().takers.ticket()
    }

    /// Removes a receiver that no longer waits.
    pub(super) fn forget(&self, ticket: TakerTicket) {
        let forgotten = self.lock().takers.forget(ticket);
        // The lock was released with the line above: the waker may be the last owner of a task.
        drop(forgotten);
    }

    pub(super) fn look<R>(&self, look: impl FnOnce(&ShapingQueue<T>) -> R) -> R {
        look(&self.lock().queue)
    }

    /// A queue is never left half changed by a panic.
    fn lock(&self) -> MutexGuard<'_, Guarded<T>> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, C: Clock> ShaperState<T, C> {
    pub(super) fn new(queue: ShapingQueue<T>, clock: C) -> Self {
        Self { clock, guarded: Mutex::new(Guarded { queue, takers: Takers::default() }) }
    }

    /// Changes the queue, and wakes receivers if the change matters to them.
    pub(super) fn change<R>(&self, verb: impl FnOnce(&mut ShapingQueue<T>, Timestamp) -> R) -> R {
        self.step(|guarded, now| verb(&mut guarded.queue, now))
    }

    /// Takes the first item if it is due; else registers `waker` for the next change.
    pub(super) fn take_or_wait(&self, ticket: TakerTicket, waker: &Waker) -> Next<T> {
        // Foreign code, so it runs outside of the lock, and so does the drop of the waker that was there before.
        let waker = waker.clone();
        let (next, _dropped_unheld) = self.step(|guarded, now| {
            let next = guarded.queue.poll(now);
            let before = match next {
                Next::Item(_) | Next::Ended => guarded.takers.forget(ticket),
                Next::At(_) | Next::Empty => guarded.takers.wait(ticket, waker),
            };
            (next, before)
        });
        next
    }

    /// Runs one step at a time that is read under the lock.
    fn step<R>(&self, verb: impl FnOnce(&mut Guarded<T>, Timestamp) -> R) -> R {
        let mut guarded = self.lock();
        let before = Outlook::of(&guarded.queue);
        // Read under the lock, so that time never runs backward between two steps.
        let answer = verb(&mut guarded, self.clock.now());
        let news = Outlook::of(&guarded.queue).is_news_after(before);
        let woken = if news { guarded.takers.all() } else { Vec::new() };
        // A waker may run its task at once, and the task may lock this state.
        drop(guarded);
        woken.into_iter().for_each(Waker::wake);
        answer
    }
}

/// The part of the queue that waiting receivers depend on.
#[derive(Clone, Copy)]
struct Outlook {
    due: Option<Timestamp>,
    ended: bool,
}

impl Outlook {
    fn of<T>(queue: &ShapingQueue<T>) -> Self {
        let due = queue.due();
        Self { due, ended: due.is_none() && queue.is_closed() }
    }

    /// Returns whether an item is due sooner, or no item will come any more. A taken item does not matter:
    /// receivers wake at its slot and wait on for the next.
    fn is_news_after(self, before: Self) -> bool {
        self.ended != before.ended
            || self.due.is_some_and(|due| before.due.is_none_or(|known| due < known))
    }
}

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
