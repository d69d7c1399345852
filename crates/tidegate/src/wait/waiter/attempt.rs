//! One attempt of a waiter: finds the obstacles, and decides if the waiter waits, and in which queue.
//!
//! The limiters are looked at first. Only if none of them is an obstacle are the units taken; else the waiter joins
//! the queue of the obstacle with the longest wait, or gives up if that wait is longer than its patience.

use std::task::Waker;

use tidegate_core::{Micros, Timestamp};

use super::WaiterPlace;
use crate::step::{Done, Step};
use crate::store::memory::Forecast;
use crate::wait::drive::AttemptResult;
use crate::wait::queues::HeldQueues;
use crate::wait::waitable::{InProcess, QueuedLimiter, Waitable, forecast_for, refuse};

/// A limiter that does not admit the request now.
struct Obstacle {
    stop: usize,
    /// True if an earlier waiter is in its queue.
    is_behind: bool,
    /// `None` is never.
    forecast: Option<Forecast>,
}

impl Obstacle {
    /// The wait; the longest possible one for never.
    fn wait(&self) -> Micros {
        self.forecast.map_or(Micros::MAX, |forecast| forecast.wait)
    }
}

/// One attempt, with all queues locked.
pub(super) struct Attempt<'a, 'l, D: Waitable> {
    pub(super) waitable: &'a D,
    pub(super) held: &'a mut HeldQueues<'l, D::Key>,
    pub(super) place: &'a mut WaiterPlace,
}

impl<D: InProcess> Attempt<'_, '_, D> {
    /// Takes the units, or waits, or gives up.
    pub(super) fn poll(mut self, now: Timestamp, waker: Waker) -> AttemptResult<Done> {
        // First, so that a waiter that no task polls holds up others for its grace and no longer.
        self.evict_late(now);
        match self.ask() {
            Ok(progress) => progress,
            Err(stopped) => {
                let (seen, obstacles) = *stopped;
                self.wait_or_give_up(seen, &obstacles, waker)
            }
        }
    }

    /// Asks the limiters unless an earlier waiter is in the way; returns the obstacles, if there
    /// are any.
    fn ask(&mut self) -> Result<AttemptResult<Done>, Box<(Done, Vec<Obstacle>)>> {
        // Before the limiters are read: either a refund sees this attempt, or the attempt sees the refund.
        for stop in self.waitable.stops() {
            self.held.announce(&stop.queue);
        }
        self.waitable.renew();
        let seen = self.waitable.step(Step::Peek);
        // A request with the same id was answered since. This request repeats that answer, so it takes nothing from
        // earlier waiters.
        if seen.repeated {
            return Ok(self.done(seen));
        }
        let obstacles = self.obstacles(&seen);
        if !obstacles.is_empty() || !seen.allowed {
            return Err(Box::new((seen, obstacles)));
        }
        // Found out by a look, so that no unit is taken for work that would run too late.
        if self.is_held_too_long(&seen) {
            return Ok(self.refused_for_delay(seen));
        }
        let done = self.waitable.step(Step::Ask);
        if done.allowed {
            return Ok(self.done(done));
        }
        // A caller that had found no waiter was quicker.
        let obstacles = self.obstacles(&done);
        Err(Box::new((done, obstacles)))
    }
}

impl<'a, D: Waitable> Attempt<'a, '_, D> {
    /// Returns whether an earlier waiter is in the way, so that the limiters need not be asked.
    #[cfg(feature = "redis")]
    pub(super) fn is_behind(&mut self, now: Timestamp) -> bool {
        self.evict_late(now);
        let ticket = self.place.ticket;
        // Noted before the limiters are asked: units that come back from now on may be missing in their replies.
        self.waitable.stops().iter().for_each(|stop| self.held.asks(&stop.queue, ticket));
        self.waitable.stops().iter().any(|stop| self.held.has_before(&stop.queue, ticket))
    }

    /// Waits or gives up after the replies of its limiters, which decided or, because an earlier
    /// waiter was in the way, were only `looked` at. Returns `None` if no obstacle is left, or if units may have become
    /// free since, so that the waiter can ask.
    #[cfg(feature = "redis")]
    pub(super) fn handle_replies(
        mut self,
        seen: Done,
        looked: bool,
        waker: Waker,
    ) -> Option<AttemptResult<Done>> {
        let obstacles = self.obstacles(&seen);
        let is_free = looked && !obstacles.iter().any(|obstacle| obstacle.is_behind);
        if is_free || self.has_missed() {
            return None;
        }
        Some(self.wait_or_give_up(seen, &obstacles, waker))
    }

    /// Returns whether units may have become free for this waiter, as the head of a queue, since it asked.
    #[cfg(feature = "redis")]
    fn has_missed(&self) -> bool {
        let queue = self.standing().and_then(|stop| self.held.queue(&stop.queue));
        queue.is_some_and(|queue| queue.has_missed(self.place.ticket))
    }

    /// Evicts late waiters from its queues. A waiter that was itself evicted arrives again.
    fn evict_late(&mut self, now: Timestamp) {
        for stop in self.waitable.stops() {
            self.held.evict(&stop.queue, now);
        }
        let ticket = self.place.ticket;
        let queue = self.standing().map(|stop| self.held.queue(&stop.queue));
        // The queue is gone, or has this waiter no more.
        if queue.is_some_and(|queue| !queue.is_some_and(|queue| queue.holds(ticket))) {
            self.place.stands = None;
            self.place.ticket = self.held.ticket();
        }
    }

    /// The limiters that do not admit the request now.
    fn obstacles(&self, seen: &Done) -> Vec<Obstacle> {
        let stops = self.waitable.stops().iter().enumerate();
        stops.filter_map(|(number, stop)| self.obstacle(number, stop, seen)).collect()
    }

    fn obstacle(
        &self,
        number: usize,
        stop: &QueuedLimiter<D::Key>,
        seen: &Done,
    ) -> Option<Obstacle> {
        let decision = seen.decisions.get(stop.index)?.decision;
        if decision.is_unlimited() {
            return None;
        }
        let is_behind = self.held.has_before(&stop.queue, self.place.ticket);
        if !is_behind && decision.is_allowed() {
            return None;
        }
        let forecast = decision.retry_after_micros().and_then(|least| {
            let forecast = forecast_for(self.waitable, self.held, stop, self.place.ticket)?;
            // Never sooner than the limiter itself says.
            Some(Forecast { wait: forecast.wait.max(least), ..forecast })
        });
        Some(Obstacle { stop: number, is_behind, forecast })
    }

    /// Joins the queue with the longest wait, if that wait ends in time and the queue is not full.
    fn wait_or_give_up(
        &mut self,
        seen: Done,
        obstacles: &[Obstacle],
        waker: Waker,
    ) -> AttemptResult<Done> {
        self.set_deadline(obstacles);
        // It waits for one limiter at a time. Then it asks all again, and the others may be free by then.
        let Some(worst) = obstacles.iter().max_by_key(|obstacle| obstacle.wait()) else {
            return self.done(seen);
        };
        let stop = if self.ends_in_time(&seen, worst) { self.join(worst.stop) } else { None };
        let Some(stop) = stop else { return self.refused(seen, obstacles) };
        self.held.park(&stop.queue, self.place.ticket, waker, self.place.deadline);
        // Only a head asks again when its forecast says. Each other waiter is woken when it becomes the head.
        AttemptResult::AskAgainAt(if worst.is_behind || self.waitable.is_only_woken() {
            self.tries_again_at(stop)
        } else {
            seen.at.plus(worst.wait())
        })
    }

    /// The shortest patience of all limiters in the way sets the deadline.
    fn set_deadline(&mut self, obstacles: &[Obstacle]) {
        let stops =
            obstacles.iter().filter_map(|obstacle| self.waitable.stops().get(obstacle.stop));
        let latest = stops.map(|stop| self.place.arrived.plus(stop.patience.wait)).min();
        // Never later than before: a limiter that was in the way earlier may have had less patience.
        self.place.deadline = self.place.deadline.min(latest.unwrap_or(Timestamp::MAX));
    }

    fn ends_in_time(&self, seen: &Done, worst: &Obstacle) -> bool {
        // A forecast without a time is a wait of zero, for which a caller without patience must not join either.
        let is_patient = self.place.deadline > self.place.arrived;
        let runs_at = worst.forecast.map(|forecast| seen.at.plus(self.whole_wait(forecast)));
        is_patient && runs_at.is_some_and(|runs_at| runs_at <= self.place.deadline)
    }

    /// The time until the work may run.
    fn whole_wait(&self, forecast: Forecast) -> Micros {
        let delay = if self.waitable.delay_is_waiting() { forecast.delay } else { Micros::ZERO };
        Micros::from_micros(forecast.wait.as_micros().saturating_add(delay.as_micros()))
    }

    /// Joins the queue of a stop; returns `None` if it is full.
    fn join(&mut self, number: usize) -> Option<&'a QueuedLimiter<D::Key>> {
        let stop = self.waitable.stops().get(number)?;
        if self.place.stands != Some(number) {
            if self.held.len(&stop.queue) >= stop.patience.max_waiters {
                return None;
            }
            // A waiter stands in one queue at a time.
            self.leave();
            self.held.join(&stop.queue, self.place.ticket, stop.cost, self.place.deadline);
            self.place.stands = Some(number);
        }
        Some(stop)
    }

    /// When to try again without being woken: a waiter that is not the head tries only to evict the waiter before it,
    /// or to give up.
    fn tries_again_at(&self, stop: &QueuedLimiter<D::Key>) -> Timestamp {
        // At the deadline itself the request may still be admitted.
        let own = self.place.deadline.plus(Micros::from_micros(1));
        let queue = self.held.queue(&stop.queue);
        let sleeper = queue.and_then(|queue| queue.patience(self.place.ticket));
        sleeper.map_or(own, |sleeper| own.min(sleeper))
    }

    /// Returns whether the request would be admitted but run after its deadline.
    fn is_held_too_long(&mut self, seen: &Done) -> bool {
        let delay = self.waitable.delay(seen);
        if delay.is_zero() || !self.waitable.delay_is_waiting() {
            return false;
        }
        let waits = self.waitable.stops().iter().map(|stop| stop.patience.wait).min();
        let latest = waits.map_or(Timestamp::MAX, |wait| self.place.arrived.plus(wait));
        seen.at.plus(delay) > latest
    }

    fn refused_for_delay(&mut self, mut seen: Done) -> AttemptResult<Done> {
        let delay = self.waitable.delay(&seen);
        seen.allowed = false;
        seen.decisions.iter_mut().for_each(|one| refuse(&mut one.decision, Some(delay)));
        self.done(seen)
    }

    /// Refuses with the expected wait at each limiter in the way.
    fn refused(&mut self, mut seen: Done, obstacles: &[Obstacle]) -> AttemptResult<Done> {
        seen.allowed = false;
        for obstacle in obstacles {
            let stop = self.waitable.stops().get(obstacle.stop);
            let decided = stop.and_then(|stop| seen.decisions.get_mut(stop.index));
            if let Some(decided) = decided {
                refuse(
                    &mut decided.decision,
                    obstacle.forecast.map(|forecast| self.whole_wait(forecast)),
                );
                // Units that are left are for the waiters before it.
                if obstacle.is_behind {
                    decided.decision.remaining = 0;
                }
            }
        }
        self.done(seen)
    }

    fn done(&mut self, done: Done) -> AttemptResult<Done> {
        self.leave();
        AttemptResult::Done(done)
    }

    fn leave(&mut self) {
        if let Some(stop) = self.standing() {
            self.held.leave(&stop.queue, self.place.ticket);
        }
        self.place.stands = None;
    }

    /// The stop in whose queue it stands.
    fn standing(&self) -> Option<&'a QueuedLimiter<D::Key>> {
        self.waitable.stops().get(self.place.stands?)
    }
}
