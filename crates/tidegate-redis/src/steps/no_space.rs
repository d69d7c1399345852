//! New limiters for which the store has no space: their rule keeps a bounded number of keys, or the store has no
//! memory left.

use tidegate_core::{Algorithm, Decision, Micros, Outcome, Visitor};

use super::{PendingStep, RedisStore, RoutedReply};
use crate::clock::Clock;
use crate::rules::OnStoreError;
use crate::script::{DecidedStep, Lacks, ScriptLimiter, ScriptStep};
use crate::store::{GaveUp, StoreError};

/// Decides with the limiters for which there is space. Each other limiter is replaced by its overflow
/// limiter or by a refusal; or it is admitted, because its rule is open without the store, and the store has no
/// memory for it.
pub(super) async fn decide_without_space(
    store: &RedisStore,
    limiters: &[ScriptLimiter<'_>],
    lacks: &[Option<Lacks>],
    pending: PendingStep<'_>,
) -> Result<RoutedReply, GaveUp> {
    // In a cluster the overflow limiter may live in another slot than the limiters of the step.
    let is_alone = limiters.len() == 1 || !store.client.settings().url.is_cluster();
    let mut rest: Vec<ScriptLimiter<'_>> = Vec::with_capacity(limiters.len());
    let mut places = Vec::with_capacity(limiters.len());
    let mut refused = Vec::new();
    let mut opened = Vec::new();
    for (place, (one, lacks)) in limiters.iter().zip(lacks).enumerate() {
        let asked_before = rest.len();
        let shared = one.shared().filter(|_| is_alone && *lacks == Some(Lacks::Space));
        // A step names a key once. If the overflow limiter is in it already, another key without space is refused.
        let shared =
            shared.filter(|shared| !limiters.iter().chain(&rest).any(|one| one.key == shared.key));
        match (lacks, shared) {
            (None, _) => rest.push(one.clone()),
            (Some(_), Some(shared)) => rest.push(shared),
            (Some(Lacks::Memory), None) if is_open(store, one, pending) => {
                opened.push(one);
            }
            (Some(_), None) => refused.push(one),
        }
        places.extend((rest.len() > asked_before).then_some(place));
    }
    if lacks.contains(&Some(Lacks::Memory))
        && let Some(first) = limiters.first()
    {
        store.client.note_undecided(&StoreError::OutOfMemory, first.key);
    }
    let denies = refused.iter().any(|one| one.asks(pending.step) > 0 && one.enforced);
    let denies = denies && !pending.step.is_report();
    // The other limiters are still asked, so that the answer has all of them, but a refused request takes nothing.
    let step = match pending.step {
        ScriptStep::Ask | ScriptStep::Decide if denies => ScriptStep::Peek,
        step => step,
    };
    let (mut done, route) = if rest.is_empty() {
        (DecidedStep::nothing(store.host.now()), None)
    } else {
        // A late reply is not undone: the units would come back to the limiters of the request, and an overflow limiter
        // is none of them.
        store.decide(&rest, PendingStep { step, undoes: false, ..pending }).await?
    };
    if done.is_lost {
        done.carried = done.carried.moved(places.len(), |place| places[place]);
        return Ok((done, route));
    }
    // In the order of the limiters, because each insertion counts on the places before it.
    for (place, (one, lacks)) in limiters.iter().zip(lacks).enumerate() {
        if lacks.is_none() {
            continue;
        }
        if opened.iter().any(|opened| opened.key == one.key) {
            done.insert_decision(place, Decision::UNLIMITED);
        } else if refused.iter().any(|refused| refused.key == one.key) {
            done.insert_decision(place, refusal(one, pending.step));
        } else if let Some(reply) = done.replies.get_mut(place) {
            reply.decided.overflow = true;
            reply.decided.elsewhere = true;
        }
    }
    done.allowed &= !denies;
    Ok((done, route))
}

/// Returns whether a rule admits a key for whose limiter the store has no memory.
fn is_open(store: &RedisStore, one: &ScriptLimiter<'_>, pending: PendingStep<'_>) -> bool {
    let PendingStep { step, asks, .. } = pending;
    let takes =
        matches!(step, ScriptStep::Ask | ScriptStep::Decide | ScriptStep::Peek) || step.is_report();
    let ask = asks.iter().find(|ask| ask.fingerprint == one.key);
    takes
        && one.asks(step) > 0
        && ask.is_some_and(|ask| ask.on_store_error(store.policy()) == OnStoreError::Open)
}

/// Returns the refusal for a key without space. It may come back a window later, because every limiter that was not
/// asked for a window is idle.
fn refusal(one: &ScriptLimiter<'_>, step: ScriptStep) -> Decision {
    let (limit, window) = one.rule.visit(LimitAndWindow).unwrap_or_default();
    let outcome = match one.asks(step) {
        0 => Outcome::Allow { delay: Micros::ZERO },
        _ => Outcome::Deny { retry_after: window },
    };
    Decision { outcome, limit, remaining: 0, reset_after: window }
}

/// Reads limit and window.
struct LimitAndWindow;

impl Visitor for LimitAndWindow {
    type Out = (u64, Micros);
    fn visit<R: Algorithm>(self, algorithm: &R) -> (u64, Micros) {
        (algorithm.limit(), algorithm.window())
    }
}
