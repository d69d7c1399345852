//! Answers that need no limiter: the answer that is remembered under the request's id, or the denial of a key that a rule
//! has refused too often.

use tidegate_core::{Micros, Timestamp};

use super::Gate;
use crate::clock::Clock;
use crate::dedupe::{self, IdempotencyKey};
use crate::frontend::deny;
use crate::request::Request;
use crate::step::{Ask, Done, Step};
use crate::store::memory::{Generation, Moved};

/// The idempotency key of the request.
#[inline]
pub(super) fn once<C: Clock>(
    gate: &Gate<C>,
    generation: &Generation,
    request: &Request<'_>,
    asks: &[Ask],
) -> Option<IdempotencyKey> {
    dedupe::of(&generation.policy, &gate.seed, request.identity()?, asks)
}

/// The answer that needs no limiter.
#[inline]
pub(super) fn without_asking<C: Clock>(
    gate: &Gate<C>,
    generation: &Generation,
    asks: &[Ask],
    once: Option<IdempotencyKey>,
    clock: &impl Clock,
) -> Result<Option<Done>, Moved> {
    // The remembered answer first: a repeated request is no new request, so no ban applies to it.
    match once.and_then(|once| gate.answers.recall(once, asks, clock)) {
        Some(repeated) => Ok(Some(repeated)),
        None => banned(gate, generation, asks, clock),
    }
}

/// Returns the denial of a request with a banned key; nothing is taken.
#[inline]
fn banned<C: Clock>(
    gate: &Gate<C>,
    generation: &Generation,
    asks: &[Ask],
    clock: &impl Clock,
) -> Result<Option<Done>, Moved> {
    if gate.front.bans.is_empty() {
        return Ok(None);
    }
    let now = clock.now();
    let left = gate.front.bans.left(asks, |ask| ask.fingerprint, now);
    left.map(|left| banned_for(gate, generation, asks, left, now)).transpose()
}

fn banned_for<C: Clock>(
    gate: &Gate<C>,
    generation: &Generation,
    asks: &[Ask],
    left: Vec<Option<Micros>>,
    now: Timestamp,
) -> Result<Done, Moved> {
    // The other limiters are reported as they are; only limiters with a ban deny.
    let mut done = gate.memory.step(generation, asks, &now, Step::Peek)?;
    for (decided, left) in done.decisions.iter_mut().zip(left) {
        left.into_iter().for_each(|left| deny(&mut decided.decision, left));
    }
    done.allowed = false;
    Ok(done)
}

/// Counts the refusals by rules that ban.
#[inline]
pub(super) fn count_refusals<C: Clock>(gate: &Gate<C>, asks: &[Ask], done: &Done) {
    if gate.front.bans.is_empty() || done.allowed {
        return;
    }
    for (ask, decided) in asks.iter().zip(&done.decisions) {
        // A key without a limiter of its own was refused because of other keys.
        if !decided.decision.is_allowed() && !decided.elsewhere {
            gate.front.bans.count(ask, |ask| ask.fingerprint, done.at);
        }
    }
}
