//! The limiters in a store that a request waits for: their last known values, and the policy that holds.

use std::sync::Arc;

use tidegate_core::{Decision, Limit, Micros, Rule, Timestamp};

use crate::answer::Answer;
use crate::frontend::{GateQueue, GateQueues, delay_of, stops_of};
use crate::inline_list::InlineList;
use crate::request::Request;
use crate::shared::{InForce, SharedGate};
use crate::step::{Decided, Done, Standing};
use crate::store::memory::{Forecast, Preview, preview_of_reply};
use crate::store::{KeyAsk, LimiterReply, StepReply, Store};
use crate::wait::{QueuedLimiter, Sums, Waitable, refuse_behind};

/// The limiters of a waiting request in a store, and their last known values.
pub(super) struct ToStore<'g, S: Store> {
    pub(super) gate: &'g SharedGate<S>,
    /// The limiters that matched when the request came, and their queues.
    first: InlineList<KeyAsk>,
    pub(super) stops: Vec<QueuedLimiter<GateQueue>>,
    /// The policy in force now, and the limiters that match under it.
    pub(super) in_force: Arc<InForce<S>>,
    pub(super) asks: InlineList<KeyAsk>,
    /// The last reply of each limiter, by place in `asks`.
    replies: InlineList<LimiterReply>,
    standing: Standing,
    /// By place, for a limiter that was asked for more than its own cost: the number of windows of its log that must
    /// pass in addition to the windows that the look covers.
    pub(super) laps: Vec<u64>,
}

impl<'g, S: Store> ToStore<'g, S> {
    pub(super) fn new(
        gate: &'g SharedGate<S>,
        in_force: Arc<InForce<S>>,
        asks: InlineList<KeyAsk>,
        max_wait: Micros,
    ) -> Self {
        let stops =
            stops_of(&in_force.generation.policy, &asks, max_wait, |ask| gate.queue_of(ask));
        Self {
            gate,
            first: asks.clone(),
            stops,
            in_force,
            asks,
            replies: InlineList::new(),
            standing: Standing::Exact,
            laps: Vec::new(),
        }
    }

    /// Goes on under the policy in force now: it may have changed while the request waited.
    pub(super) fn follow_changes(&mut self, request: &Request<'_>) {
        let newest = self.gate.newest();
        if !Arc::ptr_eq(&newest, &self.in_force) {
            self.asks = self.gate.asks(&newest, request);
            self.in_force = newest;
            // Replies of the limiters under the old policy say nothing about these.
            self.replies.clear();
            self.laps.clear();
        }
    }

    /// Returns the current place of the limiter of a stop; `None` if it no longer matches.
    fn place(&self, stop: &QueuedLimiter<GateQueue>) -> Option<usize> {
        let first = self.first.get(stop.index)?;
        self.asks.iter().position(|ask| ask.is_of(first))
    }

    /// Returns the cost to look at each limiter with, after waiters of these sums. Usually that is the request's own
    /// cost. A limiter whose reply does not have its whole state is looked at for the cost that [`laps_behind`]
    /// returns.
    pub(super) fn look(&mut self, before: impl Fn(&QueuedLimiter<GateQueue>) -> Sums) -> Vec<u64> {
        let mut costs: Vec<_> = self.asks.iter().map(KeyAsk::asks).collect();
        self.laps = vec![0; costs.len()];
        for stop in &self.stops {
            let Some(place) = self.place(stop) else { continue };
            let limit = self.limit_if_in_part(place).filter(|limit| stop.cost <= *limit);
            if let Some(limit) = limit {
                (self.laps[place], costs[place]) = laps_behind(before(stop), stop.cost, limit);
            }
        }
        costs
    }

    /// Returns the limit of a limiter whose reply has only a part of its state.
    fn limit_if_in_part(&self, place: usize) -> Option<u64> {
        let spec = *self.rule(place)?.spec();
        match spec.limit {
            Limit::Units(limit) if limit > 0 && !spec.algorithm.reply_is_whole() => Some(limit),
            _ => None,
        }
    }

    fn rule(&self, place: usize) -> Option<&Rule> {
        let newer = self.replies.get(place).and_then(|one| one.decided.values.as_ref());
        newer.or_else(|| self.asks.get(place)?.rule_in(&self.in_force.generation.policy))
    }

    /// Returns the last replies at the time of this process, by the places of the limiters that matched at
    /// first. A limiter that no longer matches refuses no request.
    pub(super) fn see(&mut self, reply: StepReply, now: Timestamp) -> Done {
        let StepReply { allowed, repeated, replies, standing, .. } = reply;
        self.standing = standing;
        let replies = replies.into_iter().map(|one| {
            one.unwrap_or_else(|| {
                LimiterReply::of_layer(Decided::of(Decision::UNLIMITED, false, false))
            })
        });
        self.replies = replies.collect();
        let decisions = self.replies.iter().map(|one| one.decided.clone()).collect();
        let last = Done { allowed, at: now, repeated, decisions };
        let decisions = last.of_each(&self.asks, &self.first);
        Done { allowed, at: now, repeated, decisions }
    }

    /// Turns the refusal `done`, by the limiters that matched at first, into an answer of the limiters that
    /// match now.
    pub(super) fn refused(&mut self, done: Done, at: Timestamp) -> Answer<'g> {
        let both = self.asks.iter().zip(std::mem::take(&mut self.replies));
        let decisions: Vec<_> = both
            .map(|(ask, last)| done.of(&self.first, ask).cloned().unwrap_or(last.decided))
            .collect();
        self.refusal(at, decisions)
    }

    /// Returns the refusal by these decisions of the limiters that match now.
    fn refusal(&self, at: Timestamp, decisions: impl IntoIterator<Item = Decided>) -> Answer<'g> {
        let nothing = StepReply::nothing(self.asks.len(), at);
        let mut refused = StepReply { allowed: false, standing: self.standing, ..nothing };
        refused.put_decided(0.., decisions.into_iter().map(Some));
        self.in_force.answer(&self.asks, refused)
    }

    /// Returns the refusal of a request that does not wait while others do; `None` if no request waits any more.
    pub(super) fn refused_behind(&mut self, seen: StepReply) -> Option<Answer<'g>> {
        let at = seen.now;
        let mut done = self.see(seen, self.gate.now());
        let is_refused = refuse_behind(self, &self.gate.queues.lock(), &mut done);
        is_refused.then(|| self.refusal(at, done.decisions))
    }
}

impl<S: Store> Waitable for ToStore<'_, S> {
    type Key = GateQueue;

    fn queues(&self) -> &GateQueues {
        &self.gate.queues
    }

    fn stops(&self) -> &[QueuedLimiter<GateQueue>] {
        &self.stops
    }

    fn preview(&self, stop: &QueuedLimiter<GateQueue>) -> Option<Box<dyn Preview>> {
        let place = self.place(stop)?;
        let rule = self.rule(place)?;
        let last = self.replies.get(place).filter(|one| one.by_store)?;
        let looked = self.limit_if_in_part(place).and(self.laps.get(place));
        let least = last.decided.decision.retry_after_micros().unwrap_or_default();
        let Some(laps) = looked else {
            let Some(state) = &last.state else {
                // Without a state the request waits at least this long.
                return Some(Box::new(Known(Forecast { wait: least, delay: Micros::ZERO })));
            };
            // With the whole state, earlier waiters are played
            // through here, and no look has to ask about them.
            return preview_of_reply(rule, state);
        };
        // The look was for the units of the last window; the windows before it pass in addition.
        let window = Micros::from(rule.spec().window.unwrap_or_default()).as_micros();
        let wait = least.plus(Micros::from_micros(laps.saturating_mul(window)));
        Some(Box::new(Known(Forecast { wait, delay: Micros::ZERO })))
    }

    fn delay(&self, done: &Done) -> Micros {
        delay_of(&self.first, done)
    }
}

/// Returns the number of windows of a log that pass before a request is admitted after others, and the cost for which
/// the log must have room by then. It is the longer of two forecasts that are never too long. In the first, each unit
/// comes by itself. In the second, each request has the smallest cost, and a window holds only whole requests. If all
/// costs are equal, the result is exact.
fn laps_behind(before: Sums, cost: u64, limit: u64) -> (u64, u64) {
    // The last unit of the request, counted from 0.
    let units = before.costs.saturating_add(cost) - 1;
    let by_unit = (units / limit, units % limit + 1);
    // A request that costs less than every earlier request may come in with the last of them.
    let requests = (before.count + u64::from(cost >= before.least)).saturating_sub(1);
    match limit.checked_div(before.least) {
        Some(fit @ 1..) => by_unit.max((requests / fit, (requests % fit + 1) * before.least)),
        _ => by_unit,
    }
}

/// The forecast for the last request that is admitted, including those in front.
struct Known(Forecast);

impl Preview for Known {
    fn admit(&mut self, _cost: u64) -> Option<Forecast> {
        Some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many windows pass until the last of these costs is admitted, after all units of a log were taken
    /// at one instant: in each window as many of them as fit.
    fn windows(costs: &[u64], limit: u64) -> u64 {
        let (mut windows, mut used) = (0, limit);
        for cost in costs {
            (windows, used) =
                if used + cost > limit { (windows + 1, *cost) } else { (windows, used + cost) };
        }
        windows
    }

    #[test]
    fn a_wait_for_a_log_is_exact_behind_equal_costs_and_never_too_long_behind_others() {
        let limit = 5;
        let mut longer = 0;
        for drawn in 0..5_u64.pow(6) {
            let costs: Vec<_> = (0..6).map(|place| drawn / 5_u64.pow(place) % 5 + 1).collect();
            let (before, [cost]) = costs.split_last_chunk::<1>().unwrap();
            let (count, least) = (before.len() as u64, *before.iter().min().unwrap());
            let sums = Sums { count, costs: before.iter().sum(), least };
            let (laps, looked) = laps_behind(sums, *cost, limit);
            assert!((1..=limit).contains(&looked), "{costs:?}: {looked}");
            let (found, exact) = (laps + 1, windows(&costs, limit));
            assert!(found <= exact, "{costs:?}: {found} and {exact}");
            let is_equal = costs.iter().all(|one| one == cost);
            assert!(found == exact || !is_equal, "{costs:?}: {found} and {exact}");
            longer += u32::from(found > costs.iter().sum::<u64>().div_ceil(limit));
        }
        assert!(longer > 500, "{longer}");
        assert_eq!(laps_behind(Sums::NONE, 3, limit), (0, 3));
        assert_eq!(laps_behind(Sums { count: 2, costs: 14, least: 7 }, 3, limit), (3, 2));
    }
}
