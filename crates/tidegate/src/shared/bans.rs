//! Bans over a store: a key that a rule refused too often is denied before the store is asked.

use tidegate_core::{Decision, Micros, Outcome, Timestamp};

use super::{InForce, SharedGate};
use crate::answer::Answer;
use crate::frontend::again;
use crate::layers::Local;
use crate::request::{Origin, Request};
use crate::rules::limit_of;
use crate::step::{Decided, remembered_time};
use crate::store::{KeyAsk, StepReply, Store, Verb};

/// Returns the denial of a request with a banned key, or its remembered answer.
pub(super) async fn banned<'g, S: Store>(
    gate: &'g SharedGate<S>,
    in_force: &InForce<S>,
    asks: &[KeyAsk],
    origin: Origin<'_>,
) -> Option<Answer<'g>> {
    let now = gate.now();
    let left = gate.front.bans.left(asks, |ask| gate.local.fingerprint(ask), now)?;
    // Any node may have admitted the request before the ban; only the store remembers that answer.
    if origin.id.is_some()
        && remembered_time(&in_force.generation.policy, asks).is_some()
        && let Some(seen) = Box::pin(remembered(gate, in_force, asks, origin)).await
    {
        return Some(seen);
    }
    let denied =
        |(ask, left): (&KeyAsk, Option<Micros>)| denied(&gate.local, in_force, ask, left?, now);
    let mut refused = StepReply { allowed: false, ..StepReply::nothing(asks.len(), now) };
    refused.put_decided(0.., asks.iter().zip(left).map(denied));
    Some(in_force.answer(asks, refused))
}

/// Returns the remembered answer to a request, from the store or, without the store, from this process.
async fn remembered<'g, S: Store>(
    gate: &'g SharedGate<S>,
    in_force: &InForce<S>,
    asks: &[KeyAsk],
    origin: Origin<'_>,
) -> Option<Answer<'g>> {
    let args = in_force.args(Verb::Peek, origin);
    let seen = in_force.tower.step(asks, args).await.ok()?;
    // Any other answer is not used, so it does not count as decided without the store.
    seen.repeated.then(|| gate.counted(in_force.answer(asks, seen)))
}

/// Returns the reply of a limiter whose key is banned for `left` more.
fn denied<S: Store>(
    local: &Local,
    in_force: &InForce<S>,
    ask: &KeyAsk,
    left: Micros,
    now: Timestamp,
) -> Option<Decided> {
    let limit = limit_of(ask.rule_in(&in_force.generation.policy)?)?;
    let known = local.denied(&in_force.generation, ask, now).map(|known| known.wait);
    let retry_after = known.map_or(left, |known| known.max(left));
    // A cost that can never fit keeps its own verdict.
    let fits = ask.asks() <= limit;
    let outcome = if fits { Outcome::Deny { retry_after } } else { Outcome::Never };
    let decision = Decision { outcome, limit, remaining: 0, reset_after: retry_after };
    Some(Decided::of(decision, false, false))
}

/// Counts the refusals of rules that ban, in an answer that refuses.
pub(super) fn count_refusals<S: Store>(
    gate: &SharedGate<S>,
    request: &Request<'_>,
    answer: &Answer<'_>,
) {
    if answer.is_degraded() {
        return;
    }
    let all = gate.asks(&gate.newest(), request);
    for (ask, matched) in again(all, |ask| ask, answer.all(), |matched| answer.known_by(matched)) {
        // The overflow limiter refuses because of the units that other keys took.
        if !matched.decision().is_allowed() && !matched.is_elsewhere() {
            gate.front.bans.count(&ask, |ask| gate.local.fingerprint(ask), gate.now());
        }
    }
}
