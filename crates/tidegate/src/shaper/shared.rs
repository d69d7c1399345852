//! What all handles of a shaper share: the queue, who waits at it, and the clock.

use std::sync::PoisonError;
use std::task::Waker;

use tidegate_core::Timestamp;

use super::queue::{Next, ShapingQueue};
use super::sync::{Mutex, MutexGuard};
use super::takers::{Takers, Ticket};
use crate::clock::Clock;

pub(super) struct Shared<T, C> {
    clock: C,
    line: Mutex<Line<T>>,
}

struct Line<T> {
    queue: ShapingQueue<T>,
    takers: Takers,
}

impl<T, C> Shared<T, C> {
    pub(super) const fn clock(&self) -> &C {
        &self.clock
    }

    pub(super) fn ticket(&self) -> Ticket {
        self.lock().takers.ticket()
    }

    /// Leaves no trace of a receiver that waits no more.
    pub(super) fn forget(&self, ticket: Ticket) {
        let forgotten = self.lock().takers.forget(ticket);
        drop(forgotten);
    }

    /// Looks at the queue.
    pub(super) fn look<R>(&self, look: impl FnOnce(&ShapingQueue<T>) -> R) -> R {
        look(&self.lock().queue)
    }

    /// A panic elsewhere never left a line half changed.
    fn lock(&self) -> MutexGuard<'_, Line<T>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, C: Clock> Shared<T, C> {
    pub(super) fn new(queue: ShapingQueue<T>, clock: C) -> Self {
        Self { clock, line: Mutex::new(Line { queue, takers: Takers::default() }) }
    }

    /// Moves the queue, and wakes who waits if there is news for them.
    pub(super) fn change<R>(&self, verb: impl FnOnce(&mut ShapingQueue<T>, Timestamp) -> R) -> R {
        self.step(|line, now| verb(&mut line.queue, now))
    }

    /// Takes the first item if it is due; else has `waker` woken when there is news.
    pub(super) fn take_or_wait(&self, ticket: Ticket, waker: &Waker) -> Next<T> {
        let waker = waker.clone();
        let (next, _dropped_unheld) = self.step(|line, now| {
            let next = line.queue.poll(now);
            let before = match next {
                Next::Item(_) | Next::Ended => line.takers.forget(ticket),
                Next::At(_) | Next::Empty => line.takers.wait(ticket, waker),
            };
            (next, before)
        });
        next
    }

    /// One step at a time that is read once the line is held.
    fn step<R>(&self, verb: impl FnOnce(&mut Line<T>, Timestamp) -> R) -> R {
        let mut line = self.lock();
        let before = Outlook::of(&line.queue);
        let answer = verb(&mut line, self.clock.now());
        let news = Outlook::of(&line.queue).is_news_after(before);
        let woken = if news { line.takers.all() } else { Vec::new() };
        drop(line);
        woken.into_iter().for_each(Waker::wake);
        answer
    }
}

/// What those who wait have gone by.
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

    /// Something is due sooner, or nothing will be any more. That an item was taken is no news: who
    /// waits wakes at its slot and waits on for the next.
    fn is_news_after(self, before: Self) -> bool {
        let sooner = |due| before.due.is_none_or(|known| due < known);
        self.ended != before.ended || self.due.is_some_and(sooner)
    }
}
