//! How a task or a thread waits for a turn.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate_core::{Micros, Outcome, Timestamp};

use super::door::{AtHand, Door, step_behind};
use super::turn::Turn;
use crate::clock::{Park, Sleep, Timer, unparks_this_thread};
use crate::step::{Done, Step};

/// Waits as a task; ends when the work may run, or is refused. Dropped while it waits, it leaves no
/// trace; dropped while an admitted request is held, that keeps its slot.
pub(crate) async fn wait<D: AtHand>(door: D, timer: &impl Timer) -> Done {
    if never_waits(&door) {
        let done = step_behind(&door, Step::Ask);
        return hold(&door, done, timer).await;
    }
    let mut turn = Turn::new(door);
    let done = turn_of(&mut turn, timer).await;
    hold(turn.door(), done, timer).await
}

/// The same, but ends when it is admitted: the work must be held for the delay that is told.
pub(crate) async fn wait_in_line<D: AtHand>(door: D, timer: &impl Timer) -> Done {
    if never_waits(&door) {
        return step_behind(&door, Step::Ask);
    }
    turn_of(&mut Turn::new(door), timer).await
}

async fn turn_of<D: AtHand>(turn: &mut Turn<D>, timer: &impl Timer) -> Done {
    let mut alarm = Alarm::default();
    poll_fn(|context| alarm.drive(timer, context, |now, waker| turn.poll(now, waker))).await
}

/// Ends when the work may run that was decided.
pub(crate) async fn hold<D: Door>(door: &D, mut done: Done, timer: &impl Timer) -> Done {
    let runs_at = release(door, &mut done);
    wait_until(timer, runs_at).await;
    done
}

/// Ends when the clock reads `at`: a timer may end a little early.
pub(crate) async fn wait_until(timer: &impl Timer, at: Timestamp) {
    while timer.now() < at {
        timer.sleep_until(at).await;
    }
}

/// Whether every limiter would refuse it at once, so that it need not stand in a line to be decided.
fn never_waits<D: Door>(door: &D) -> bool {
    !door.delay_is_waiting() && door.stops().iter().all(|stop| stop.patience.wait.is_zero())
}

/// What [`wait`] does, by blocking the thread.
pub(crate) fn wait_blocking<D: AtHand>(door: D, clock: &impl Park) -> Done {
    let mut turn = Turn::new(door);
    let done = block(clock, |now, waker| turn.poll(now, waker));
    hold_blocking(turn.door(), done, clock)
}

/// What [`hold`] does, by blocking the thread.
pub(crate) fn hold_blocking<D: Door>(door: &D, mut done: Done, clock: &impl Park) -> Done {
    let runs_at = release(door, &mut done);
    while clock.now() < runs_at {
        clock.park_until(runs_at);
    }
    done
}

/// When the work may run; the answer will tell no delay, for it has passed by then.
fn release<D: Door>(door: &D, done: &mut Done) -> Timestamp {
    let delay = if done.allowed { door.delay(done) } else { Micros::ZERO };
    for decided in &mut done.decisions {
        if let Outcome::Allow { delay } = &mut decided.decision.outcome {
            *delay = Micros::ZERO;
        }
    }
    done.at.plus(delay)
}

/// How far one who waits has come.
#[derive(Debug)]
pub(crate) enum Progress<T> {
    /// It is over. It stands in no line any more.
    Done(T),
    /// It waits until its waker is called, and no longer than this.
    AskAgainAt(Timestamp),
}

/// The timer that a task has set, and for when.
#[derive(Debug, Default)]
pub(super) struct Alarm(Option<(Timestamp, Sleep)>);

impl Alarm {
    /// Asks until there is an end, or nothing to do but to wait.
    pub(crate) fn drive<T>(
        &mut self,
        timer: &impl Timer,
        context: &mut Context<'_>,
        mut ask: impl FnMut(Timestamp, &Waker) -> Progress<T>,
    ) -> Poll<T> {
        loop {
            match ask(timer.now(), context.waker()) {
                Progress::Done(end) => return Poll::Ready(end),
                Progress::AskAgainAt(at) if self.rings(timer, at, context) => {}
                Progress::AskAgainAt(_) => return Poll::Pending,
            }
        }
    }

    /// Sets it, if it is not set so already; tells whether the time has come.
    fn rings(&mut self, timer: &impl Timer, at: Timestamp, context: &mut Context<'_>) -> bool {
        self.0.take_if(|(set, _)| *set != at);
        let (_, sleep) = self.0.get_or_insert_with(|| (at, timer.sleep_until(at)));
        let rings = Pin::new(sleep).poll(context).is_ready();
        self.0.take_if(|_| rings);
        rings
    }
}

/// Asks, and parks the thread in between.
pub(crate) fn block<T>(
    clock: &impl Park,
    mut ask: impl FnMut(Timestamp, &Waker) -> Progress<T>,
) -> T {
    let waker = unparks_this_thread();
    loop {
        match ask(clock.now(), &waker) {
            Progress::Done(end) => return end,
            Progress::AskAgainAt(at) => clock.park_until(at),
        }
    }
}
