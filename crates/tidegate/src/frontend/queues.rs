//! The queues of requests that wait at a gate, and which of them a request may join.

use tidegate_core::Micros;

use crate::key::Fingerprint;
use crate::rules::Policy;
use crate::step::{Ask, Done, Lineage};
use crate::wait::{Patience, QueueKey, QueuedLimiter, Queues};

/// Identifies the limiter that a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GateQueue {
    rule: Lineage,
    fingerprint: Fingerprint,
}

impl GateQueue {
    pub(crate) const fn new(rule: Lineage, fingerprint: Fingerprint) -> Self {
        Self { rule, fingerprint }
    }
}

impl QueueKey for GateQueue {
    const COUNTS: usize = 256;

    fn spread(&self) -> usize {
        self.fingerprint.spread().wrapping_add(self.rule.number_of_rule() as usize)
    }
}

pub(crate) type GateQueues = Queues<GateQueue>;

impl GateQueues {
    /// Wakes the requests that wait for limiters of these rules, because the rules have changed.
    pub(crate) fn wake_all_of(&self, rules: &[Lineage]) {
        self.wake_those(|queue| rules.contains(&queue.rule));
    }
}

/// Returns the limiters that can refuse a request that waits at most `max_wait`. `queue_of` returns the queue
/// of a limiter.
pub(crate) fn stops_of<K>(
    policy: &Policy,
    asks: &[Ask<K>],
    max_wait: Micros,
    queue_of: impl Fn(&Ask<K>) -> GateQueue,
) -> Vec<QueuedLimiter<GateQueue>> {
    let can_refuse = asks.iter().enumerate().filter(|(_, ask)| ask.can_refuse());
    can_refuse
        .map(|(index, ask)| QueuedLimiter {
            queue: queue_of(ask),
            cost: ask.asks(),
            patience: patience(policy, ask.rule, max_wait),
            index,
        })
        .collect()
}

/// Returns how long a rule lets an excess request wait, if the request itself waits at most `max_wait`.
fn patience(policy: &Policy, rule: usize, max_wait: Micros) -> Patience {
    let Some(rule) = policy.rules().get(rule) else { return Patience::NONE };
    let patience = Patience::from(rule.spec().on_excess);
    Patience { wait: patience.wait.min(max_wait), ..patience }
}

/// Returns whether one of these limiters may let a request wait that itself waits at most `max_wait`.
pub(crate) fn may_wait<K>(policy: &Policy, asks: &[Ask<K>], max_wait: Micros) -> bool {
    asks.iter().any(|ask| ask.can_refuse() && !patience(policy, ask.rule, max_wait).wait.is_zero())
}

/// Returns how long a request with these limiters must be held. A rule in shadow mode holds no request.
pub(crate) fn delay_of<K>(asks: &[Ask<K>], done: &Done) -> Micros {
    let decisions = asks.iter().zip(&done.decisions).filter(|(ask, _)| ask.enforced);
    decisions.map(|(_, decided)| decided.decision.delay_micros()).max().unwrap_or_default()
}

pub(crate) const fn queue_of(ask: &Ask) -> GateQueue {
    GateQueue::new(ask.lineage, ask.fingerprint)
}
