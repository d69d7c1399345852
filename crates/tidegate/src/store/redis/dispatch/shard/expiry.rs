//! Requests whose time is over, and shards that are silent.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Health, Shard, State};
use crate::store::redis::dispatch::TICK;
use crate::store::redis::dispatch::pending::Pending;
use crate::store::redis::error::StoreError;

/// How long a time of many requests is remembered.
const LATELY: Duration = Duration::from_secs(1);
/// Deadlines for which such a shard may be silent.
const PATIENCE_UNDER_LOAD: u32 = 20;

/// The time of one check of the requests that are due.
#[derive(Clone, Copy)]
struct Look {
    /// By the thread's clock.
    now: Instant,
    /// By the real clock.
    real: Instant,
    /// How long the shard was asked and has not answered.
    silent: Duration,
}

/// What happens to a request that is due.
enum Due {
    /// It is checked again then.
    Again(Instant),
    /// It cannot be decided in time.
    Overloaded,
    /// It waited for a shard that is unavailable.
    Unavailable,
}

impl Shard {
    /// Gives up requests whose time is over. Returns the reason why the shard is unavailable where
    /// it was asked and has not answered for the deadline.
    pub(in crate::store::redis::dispatch) fn tick(&self) -> Option<StoreError> {
        let (now, real) = (self.clock.now(), Instant::now());
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let look = Look { now, real, silent: state.silent(now) };
        if state.health == Health::Fit && look.silent >= self.patience(state) {
            return Some(StoreError::Timeout);
        }
        let (mut again, mut lost) = (Vec::new(), None);
        while lost.is_none()
            && let Some(request) = state.pop_due(look)
        {
            if request.is_done() || !request.is_in_time() || request.home.get() != self.number {
                continue;
            }
            match self.due(state, &request, look) {
                Due::Again(at) => again.push((at, request)),
                Due::Unavailable => {
                    lost = Some(StoreError::Timeout);
                    again.push((request.deadline, request));
                }
                Due::Overloaded if state.health != Health::Fit => {
                    request.give_up(StoreError::Away);
                    state.queue.drop_one(|request| request.is_done());
                }
                Due::Overloaded => {
                    let was_queued = request.is_queued();
                    self.overloaded(&state.queue, &request);
                    if was_queued {
                        state.queue.drop_one(|request| request.is_done());
                    } else if now >= request.deadline {
                        state.window.late(now);
                    }
                }
            }
        }
        again.into_iter().for_each(|(at, request)| state.add_due(at, request));
        lost
    }

    /// The silence after which the shard is unavailable: the deadline, or longer where it was asked
    /// much lately, because a store that is short of processor time is silent too. Requests are
    /// decided as under overload meanwhile.
    fn patience(&self, state: &State) -> Duration {
        let deadline = self.shared.deadline;
        let is_busy = state.busy_at.is_some_and(|at| self.clock.now().duration_since(at) < LATELY);
        if is_busy { deadline * PATIENCE_UNDER_LOAD } else { deadline }
    }

    /// The silence after which a request that waited for the whole deadline counts as waiting for
    /// an unavailable shard: handing it over and checking it takes up to two ticks.
    fn least_silence(&self, state: &State) -> Duration {
        let patience = self.patience(state);
        patience.saturating_sub(2 * TICK).max(patience * 3 / 4)
    }

    fn due(&self, state: &State, request: &Pending, look: Look) -> Due {
        let Look { now, real, silent } = look;
        let is_silent = state.health == Health::Fit && silent >= self.least_silence(state);
        if !request.is_queued() && now < request.deadline && real < request.latest {
            return Due::Again(request.deadline);
        }
        // It waited for all of its time, most of it while the shard was silent.
        if is_silent && !request.is_queued() && now >= request.deadline {
            return Due::Unavailable;
        }
        // Many callers ask for its key and are decided together; no limit may open for them.
        let is_shared = state.queue.is_shared(&request.keys);
        let is_hurried = request.is_queued() && self.is_hurried(state, request);
        if is_shared && !is_hurried && real < request.latest && !request.waits_on.replace(true) {
            return Due::Again(request.latest - self.clock.stalled());
        }
        Due::Overloaded
    }
}

impl State {
    fn silent(&self, now: Instant) -> Duration {
        let asked_at = self.link.as_ref().and_then(|link| link.sent_at.front().copied());
        asked_at.map_or(Duration::ZERO, |at| now.duration_since(at.max(self.heard_at)))
    }

    /// The next request that is due, if any.
    fn pop_due(&mut self, look: Look) -> Option<Rc<Pending>> {
        let is_due = |(at, request): &mut (Instant, Rc<Pending>)| {
            *at <= look.now || request.latest <= look.real
        };
        self.due.pop_front_if(is_due).map(|(_, request)| request)
    }
}
