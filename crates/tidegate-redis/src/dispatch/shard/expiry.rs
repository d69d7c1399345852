//! Requests whose time is over, and shards that are silent.
//!
//! A request is looked at three times at most. At `send_by`, after three quarters of its time, it must have been sent.
//! At its `deadline`, by the clock of the thread, the reply must be there. A request that is decided together with
//! others for its key may wait until `latest`, ten milliseconds later by the real clock. The store's thread calls
//! [`StoreShard::tick`] for each shard.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::Instant;

use super::{ShardHealth, ShardState, StoreShard};
use crate::dispatch::pending::Pending;
use crate::store::StoreError;

/// The time that many requests are remembered.
pub(super) const LATELY: Duration = Duration::from_secs(1);
/// Deadlines of silence after which a shard is unavailable; the second number is for a shard that was asked much
/// lately.
const PATIENCE: (u32, u32) = (3, 20);
/// Most requests that may wait for a suspect shard and are decided as though it were unavailable.
const FEW_WAITING: usize = 4;

/// The time of one check of the requests that are due.
#[derive(Clone, Copy)]
struct Look {
    /// By the thread's clock.
    now: Instant,
    /// By the real clock.
    real: Instant,
    /// True if requests whose time is over are decided as though the shard were unavailable.
    is_outage: bool,
}

/// The fate of a request that is due.
enum Due {
    /// It is checked again then.
    Again(Instant),
    /// It cannot be decided in time.
    Overloaded,
    /// It waited for a shard that is silent.
    Unavailable,
}

impl StoreShard {
    /// Gives up requests whose time is over. Returns the reason why the shard is unavailable if it was asked
    /// and has not answered for a few deadlines.
    pub(in crate::dispatch) fn tick(&self) -> Option<StoreError> {
        let (now, real) = self.clock.both();
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let silent = state.silent(now);
        let is_busy = state.is_busy(now);
        let patience = if is_busy { PATIENCE.1 } else { PATIENCE.0 };
        if state.health == ShardHealth::Fit && silent >= self.shared.deadline * patience {
            return Some(StoreError::Timeout);
        }
        let is_suspect = self.is_suspect(state, silent);
        // It stays crowded as long as it is a suspect, even if requests leave.
        state.is_crowded = is_suspect && (is_busy || state.is_crowded || self.has_many(state));
        let look = Look { now, real, is_outage: is_suspect && !state.is_crowded };
        let mut again = Vec::new();
        while let Some(request) = state.pop_due(look) {
            if !self.is_awaited(&request) {
                continue;
            }
            // Read before the request is given up, because that ends it.
            let was_queued = request.is_queued();
            match self.due(state, &request, look) {
                Due::Again(at) => {
                    again.push((at, request));
                    continue;
                }
                Due::Unavailable => request.give_up(request.unanswered(&StoreError::Timeout)),
                // It is not checked yet, or its connection is being opened: that is no overload.
                Due::Overloaded if state.health != ShardHealth::Fit => {
                    request.give_up(StoreError::Away);
                }
                Due::Overloaded => {
                    self.overloaded(&state.queue, &request);
                    // The shard had the request, and was late with
                    // it. A request that was not sent says nothing.
                    if !was_queued && now >= request.deadline {
                        state.window.late(now);
                    }
                }
            }
            // It stays in the queue as done, until many such requests are removed together.
            if was_queued {
                state.queue.drop_one(|request| request.is_done());
            }
        }
        // Afterwards, so that the loop does not look at them twice.
        again.into_iter().for_each(|(at, request)| state.add_due(at, request));
        None
    }

    /// Returns whether a caller still waits in time for a request to this shard.
    pub(super) fn is_awaited(&self, request: &Pending) -> bool {
        request.home.get() == self.number && !request.is_done() && request.is_in_time()
    }

    /// Returns whether the shard was silent for most of the time that a request waits.
    fn is_suspect(&self, state: &ShardState, silent: Duration) -> bool {
        state.health == ShardHealth::Fit && silent >= self.shared.deadline * 3 / 4
    }

    /// Returns whether more than a few requests wait: the server may be short of processor time, or gone, so no limit
    /// may open for them.
    fn has_many(&self, state: &ShardState) -> bool {
        let direct = usize::try_from(self.shared.counts.direct.load(Relaxed)).unwrap_or(usize::MAX);
        let mut awaited = state.due.iter().filter(|(_, request)| self.is_awaited(request));
        awaited.nth(FEW_WAITING.saturating_sub(direct)).is_some()
    }

    /// Decides about a request whose time of a look has come.
    fn due(&self, state: &ShardState, request: &Pending, look: Look) -> Due {
        let Look { now, real, is_outage } = look;
        // This is the look at `send_by`, and it was sent: the store has until the deadline.
        if !request.is_queued() && now < request.deadline && real < request.latest {
            return Due::Again(request.deadline);
        }
        if is_outage && !request.is_queued() && now >= request.deadline {
            return Due::Unavailable;
        }
        // Where no reply has been in time for long, a request that is not sent at once does not wait on.
        let is_hurried = request.is_queued() && state.is_hurried(request, now);
        // Many callers ask for its key and are decided together; no limit may open for them.
        let is_shared = state.queue.is_shared(&request.keys);
        if is_shared && !is_hurried && real < request.latest && !request.waits_on.replace(true) {
            // `latest` is by the real clock, and requests are due by the thread's clock.
            return Due::Again(request.latest - self.clock.stalled());
        }
        Due::Overloaded
    }
}

impl ShardState {
    /// Returns whether the shard was asked much lately: it may be silent for longer, because a store that
    /// is short of processor time is silent too.
    fn is_busy(&self, now: Instant) -> bool {
        self.busy_at.is_some_and(|at| now.duration_since(at) < LATELY)
    }

    /// The time since the shard was asked without an answer.
    fn silent(&self, now: Instant) -> Duration {
        let asked_at = self.link.as_ref().and_then(|link| link.sent_at.front().copied());
        // Since the oldest write without a reply, or since the last reply if that is later.
        asked_at.map_or(Duration::ZERO, |at| now.duration_since(at.max(self.heard_at)))
    }

    /// The next request that is due, if any.
    fn pop_due(&mut self, look: Look) -> Option<Rc<Pending>> {
        let (_, request) = self
            .due
            // The real clock ends a wait even while the thread's clock stands still.
            .pop_front_if(|(at, request)| *at <= look.now || request.latest <= look.real)?;
        Some(request)
    }
}
