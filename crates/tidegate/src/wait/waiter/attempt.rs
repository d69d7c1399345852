//! One poll of a turn: what is in its way, whether it waits for that, and where.

use std::task::Waker;

use tidegate_core::{Micros, Timestamp};

use super::door::{AtHand, Door, Stop, foresee, refuse};
use super::drive::Progress;
use super::hall::Hall;
use super::turn::Place;
use crate::step::{Done, Step};
use crate::store::memory::Foreseen;

/// A limiter that does not let it through now.
struct Obstacle {
    stop: usize,
    /// Whether somebody stands before it who came sooner.
    is_behind: bool,
    /// `None` is never.
    foreseen: Option<Foreseen>,
}

impl Obstacle {
    /// The wait, where never is the longest.
    fn wait(&self) -> Micros {
        self.foreseen.map_or(Micros::MAX, |foreseen| foreseen.wait)
    }
}

/// One poll, all lines in hand.
pub(super) struct Asking<'a, 'l, D: Door> {
    pub(super) door: &'a D,
    pub(super) hall: &'a mut Hall<'l, D::Line>,
    pub(super) place: &'a mut Place,
}

impl<D: AtHand> Asking<'_, '_, D> {
    /// Takes what it came for, or waits, or gives up.
    pub(super) fn poll(mut self, now: Timestamp, waker: Waker) -> Progress<Done> {
        self.tidy(now);
        self.ask().unwrap_or_else(|(seen, obstacles)| self.wait_or_give_up(seen, &obstacles, waker))
    }

    /// Asks, unless somebody stands before it; else tells what is in its way.
    fn ask(&mut self) -> Result<Progress<Done>, (Done, Vec<Obstacle>)> {
        for stop in self.door.stops() {
            self.hall.announce(&stop.line);
        }
        self.door.renew();
        let seen = self.door.step(Step::Peek);
        // The same request was answered while it stood here: it takes nothing from who stands before it.
        if seen.repeated {
            return Ok(self.done(seen));
        }
        let obstacles = self.obstacles(&seen);
        if !obstacles.is_empty() || !seen.allowed {
            return Err((seen, obstacles));
        }
        if self.is_held_too_long(&seen) {
            return Ok(self.refused_for_delay(seen));
        }
        let done = self.door.step(Step::Ask);
        if done.allowed {
            return Ok(self.done(done));
        }
        // Somebody who had found nobody waiting was quicker.
        let obstacles = self.obstacles(&done);
        Err((done, obstacles))
    }
}

impl<D: Door> Asking<'_, '_, D> {
    /// Whether somebody stands before it, so that it need not ask.
    #[cfg(feature = "redis")]
    pub(super) fn is_behind(&mut self, now: Timestamp) -> bool {
        self.tidy(now);
        let ticket = self.place.ticket;
        self.door.stops().iter().for_each(|stop| self.hall.asks(&stop.line, ticket));
        self.door.stops().iter().any(|stop| self.hall.has_before(&stop.line, ticket))
    }

    /// Waits, or gives up, after its limiters were asked, or `looked` at because somebody stood before
    /// it; `None` where nobody does any more, or units may have come since, so that it can ask.
    #[cfg(feature = "redis")]
    pub(super) fn hear(mut self, seen: Done, looked: bool, waker: Waker) -> Option<Progress<Done>> {
        let obstacles = self.obstacles(&seen);
        let is_free = looked && !obstacles.iter().any(|obstacle| obstacle.is_behind);
        if is_free || self.has_missed() {
            return None;
        }
        Some(self.wait_or_give_up(seen, &obstacles, waker))
    }

    /// Whether units may have come for it, as the head of a line, since it asked.
    #[cfg(feature = "redis")]
    fn has_missed(&self) -> bool {
        let stop = self.place.stands.and_then(|stands| self.door.stops().get(stands));
        let line = stop.and_then(|stop| self.hall.line(&stop.line));
        line.is_some_and(|line| line.has_missed(self.place.ticket))
    }

    /// Puts out of its lines who is far too late. One who was put out arrives anew.
    fn tidy(&mut self, now: Timestamp) {
        for stop in self.door.stops() {
            self.hall.put_out(&stop.line, now);
        }
        let ticket = self.place.ticket;
        let stop = self.place.stands.and_then(|stands| self.door.stops().get(stands));
        let holds = |stop: &Stop<D::Line>| {
            self.hall.line(&stop.line).is_some_and(|line| line.holds(ticket))
        };
        if stop.is_some_and(|stop| !holds(stop)) {
            self.place.stands = None;
            self.place.ticket = self.hall.ticket();
        }
    }

    /// The limiters that are in its way.
    fn obstacles(&self, seen: &Done) -> Vec<Obstacle> {
        let stops = self.door.stops().iter().enumerate();
        stops.filter_map(|(number, stop)| self.obstacle(number, stop, seen)).collect()
    }

    fn obstacle(&self, number: usize, stop: &Stop<D::Line>, seen: &Done) -> Option<Obstacle> {
        let decided = seen.decisions.get(stop.place).filter(|decided| !decided.unlimited)?;
        let decision = decided.decision;
        let is_behind = self.hall.has_before(&stop.line, self.place.ticket);
        if !is_behind && decision.is_allowed() {
            return None;
        }
        let foreseen = decision.retry_after().and_then(|least| {
            let foreseen = foresee(self.door, self.hall, stop, self.place.ticket)?;
            Some(Foreseen { wait: foreseen.wait.max(least), ..foreseen })
        });
        Some(Obstacle { stop: number, is_behind, foreseen })
    }

    /// Stands in the line of the longest wait, if that ends in time and the line has a place.
    fn wait_or_give_up(
        &mut self,
        seen: Done,
        obstacles: &[Obstacle],
        waker: Waker,
    ) -> Progress<Done> {
        self.hurry(obstacles);
        let Some(worst) = obstacles.iter().max_by_key(|obstacle| obstacle.wait()) else {
            return self.done(seen);
        };
        if !self.ends_in_time(&seen, worst) || !self.stand(worst.stop) {
            return self.refused(seen, obstacles);
        }
        let Some(stop) = self.door.stops().get(worst.stop) else {
            return self.refused(seen, obstacles);
        };
        self.hall.park(&stop.line, self.place.ticket, waker, self.place.deadline);
        Progress::AskAgainAt(if worst.is_behind {
            self.gives_up_at(stop)
        } else {
            seen.at.plus(worst.wait())
        })
    }

    /// It may wait for as long as each of the limiters in its way lets it.
    fn hurry(&mut self, obstacles: &[Obstacle]) {
        let stops = obstacles.iter().filter_map(|obstacle| self.door.stops().get(obstacle.stop));
        let latest = stops.map(|stop| self.place.arrived.plus(stop.patience.wait)).min();
        self.place.deadline = self.place.deadline.min(latest.unwrap_or(Timestamp::MAX));
    }

    fn ends_in_time(&self, seen: &Done, worst: &Obstacle) -> bool {
        let is_patient = self.place.deadline > self.place.arrived;
        let runs_at = worst.foreseen.map(|foreseen| seen.at.plus(self.whole_wait(foreseen)));
        is_patient && runs_at.is_some_and(|runs_at| runs_at <= self.place.deadline)
    }

    /// How long it takes until the work may run.
    fn whole_wait(&self, foreseen: Foreseen) -> Micros {
        let delay = if self.door.delay_is_waiting() { foreseen.delay } else { Micros::ZERO };
        Micros::from_micros(foreseen.wait.as_micros().saturating_add(delay.as_micros()))
    }

    /// Stands in the line of a stop; tells whether there is a place.
    fn stand(&mut self, number: usize) -> bool {
        if self.place.stands == Some(number) {
            return true;
        }
        let Some(stop) = self.door.stops().get(number) else { return false };
        if self.hall.len(&stop.line) >= stop.patience.max_waiters {
            return false;
        }
        self.leave();
        self.hall.join(&stop.line, self.place.ticket, stop.cost, self.place.deadline);
        self.place.stands = Some(number);
        true
    }

    /// One who is not the head need not ask before its deadline has passed, but to put out a sleeper
    /// before it.
    fn gives_up_at(&self, stop: &Stop<D::Line>) -> Timestamp {
        let own = self.place.deadline.plus(Micros::from_micros(1));
        let line = self.hall.line(&stop.line);
        let sleeper = line.and_then(|line| line.patience(self.place.ticket));
        sleeper.map_or(own, |sleeper| own.min(sleeper))
    }

    /// Whether it would be admitted, but to run after its deadline.
    fn is_held_too_long(&mut self, seen: &Done) -> bool {
        let delay = self.door.delay(seen);
        if delay.is_zero() || !self.door.delay_is_waiting() {
            return false;
        }
        let waits = self.door.stops().iter().map(|stop| stop.patience.wait).min();
        let latest = waits.map_or(Timestamp::MAX, |wait| self.place.arrived.plus(wait));
        seen.at.plus(delay) > latest
    }

    fn refused_for_delay(&mut self, mut seen: Done) -> Progress<Done> {
        let delay = self.door.delay(&seen);
        seen.allowed = false;
        seen.decisions.iter_mut().for_each(|one| refuse(&mut one.decision, Some(delay)));
        self.done(seen)
    }

    /// Tells of each limiter in its way the time it would have taken.
    fn refused(&mut self, mut seen: Done, obstacles: &[Obstacle]) -> Progress<Done> {
        seen.allowed = false;
        for obstacle in obstacles {
            let stop = self.door.stops().get(obstacle.stop);
            let decided = stop.and_then(|stop| seen.decisions.get_mut(stop.place));
            if let Some(decided) = decided {
                refuse(
                    &mut decided.decision,
                    obstacle.foreseen.map(|foreseen| self.whole_wait(foreseen)),
                );
                if obstacle.is_behind {
                    decided.decision.remaining = 0;
                }
            }
        }
        self.done(seen)
    }

    fn done(&mut self, done: Done) -> Progress<Done> {
        self.leave();
        Progress::Done(done)
    }

    fn leave(&mut self) {
        let stands = self.place.stands.take();
        if let Some(stop) = stands.and_then(|stands| self.door.stops().get(stands)) {
            self.hall.leave(&stop.line, self.place.ticket);
        }
    }
}
