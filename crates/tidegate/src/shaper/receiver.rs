//! A receiver that waits for items, as a task or as a thread.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread;

use tidegate_core::Timestamp;

use super::Shaper;
use super::queue::{Departure, Next};
use super::takers::TakerTicket;
use crate::clock::{Park, Sleep, Timer, unparks_this_thread};

/// One receiver of a queue. It holds nothing between two attempts, so dropping it at any time loses
/// no item.
pub(super) struct Receiver<T, C> {
    shaper: Shaper<T, C>,
    ticket: TakerTicket,
    /// The slot it waits for, if any.
    alarm: Option<(Timestamp, Sleep)>,
}

impl<T, C> Receiver<T, C> {
    pub(super) fn new(shaper: Shaper<T, C>) -> Self {
        Self { ticket: shaper.shared.ticket(), shaper, alarm: None }
    }
}

impl<T, C: Timer> Receiver<T, C> {
    /// The next item in its slot; `None` at the end.
    pub(super) async fn departure(&mut self) -> Option<Departure<T>> {
        poll_fn(|context| self.poll(context)).await
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Departure<T>>> {
        loop {
            match self.shaper.shared.take_or_wait(self.ticket, context.waker()) {
                Next::Item(departure) => return Poll::Ready(Some(departure)),
                Next::Ended => return Poll::Ready(None),
                // The waker is registered, and the next push calls it.
                Next::Empty => return Poll::Pending,
                Next::At(slot) => ready!(self.sleep_until(slot, context)),
            }
        }
    }

    /// Keeps the current sleep if it ends at the slot.
    fn sleep_until(&mut self, slot: Timestamp, context: &mut Context<'_>) -> Poll<()> {
        // A sleep that was begun goes on, unless the first item has another slot by now.
        let begun = self.alarm.take().filter(|(at, _)| *at == slot);
        let clock = self.shaper.shared.clock();
        let (_, mut sleep) = begun.unwrap_or_else(|| (slot, clock.sleep_until(slot)));
        let answer = Pin::new(&mut sleep).poll(context);
        self.alarm = answer.is_pending().then_some((slot, sleep));
        answer
    }
}

impl<T, C: Park> Receiver<T, C> {
    /// The next item in its slot; `None` at the end. Blocks the thread until then.
    pub(super) fn departure_blocking(&mut self) -> Option<Departure<T>> {
        let waker = unparks_this_thread();
        loop {
            match self.shaper.shared.take_or_wait(self.ticket, &waker) {
                Next::Item(departure) => return Some(departure),
                Next::Ended => return None,
                Next::Empty => thread::park(),
                Next::At(slot) => self.shaper.shared.clock().park_until(slot),
            }
        }
    }
}

impl<T, C> Drop for Receiver<T, C> {
    fn drop(&mut self) {
        self.shaper.shared.forget(self.ticket);
    }
}
