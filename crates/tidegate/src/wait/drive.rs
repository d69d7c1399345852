//! The sleep of a task or a thread between two attempts of a waiter: until the waker is called, or a time has come.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate_core::Timestamp;

use crate::clock::{Park, Sleep, Timer, unparks_this_thread};

/// The result of one attempt.
#[derive(Debug)]
pub(crate) enum AttemptResult<T> {
    /// The wait is over; the waiter is in no queue any more.
    Done(T),
    /// Try again when the waker is called, at this time at the latest.
    AskAgainAt(Timestamp),
}

/// The timer that a task has set, with its time.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<(Timestamp, Sleep)>);

impl Alarm {
    /// Repeats `ask` until it is done, or has to wait for the waker or the timer.
    pub(crate) fn drive<T>(
        &mut self,
        timer: &impl Timer,
        context: &mut Context<'_>,
        mut ask: impl FnMut(Timestamp, &Waker) -> AttemptResult<T>,
    ) -> Poll<T> {
        loop {
            match ask(timer.now(), context.waker()) {
                AttemptResult::Done(end) => return Poll::Ready(end),
                // The time has come already: another attempt.
                AttemptResult::AskAgainAt(at) if self.rings(timer, at, context) => {}
                AttemptResult::AskAgainAt(_) => return Poll::Pending,
            }
        }
    }

    /// Sets the alarm unless it is already set for `at`; returns whether the time has come.
    pub(crate) fn rings(
        &mut self,
        timer: &impl Timer,
        at: Timestamp,
        context: &mut Context<'_>,
    ) -> bool {
        // The sleep goes on if the waiter asks again at the same instant, as after a wake that brought it nothing.
        self.0.take_if(|(set, _)| *set != at);
        let (_, sleep) = self.0.get_or_insert_with(|| (at, timer.sleep_until(at)));
        let rings = Pin::new(sleep).poll(context).is_ready();
        // A timer that has fired must not be polled again, and it may have fired early.
        self.0.take_if(|_| rings);
        rings
    }
}

/// Repeats `ask`, and parks the thread in between.
pub(crate) fn block<T>(
    clock: &impl Park,
    mut ask: impl FnMut(Timestamp, &Waker) -> AttemptResult<T>,
) -> T {
    let waker = unparks_this_thread();
    loop {
        match ask(clock.now(), &waker) {
            AttemptResult::Done(end) => return end,
            AttemptResult::AskAgainAt(at) => clock.park_until(at),
        }
    }
}

/// Resolves when the clock reads `at`, because a timer may fire a little early.
pub(crate) async fn wait_until(timer: &impl Timer, at: Timestamp) {
    while timer.now() < at {
        timer.sleep_until(at).await;
    }
}
