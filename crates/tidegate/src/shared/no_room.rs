//! New limiters for which the store has no room: their rule keeps a bounded number of keys, or the store has no
//! memory left.

use tidegate_core::{Algorithm, Decision, Micros, Outcome, ScriptReply, Verdict, Visitor};

use super::store::{CallArgs, PendingStep, Store};
use crate::clock::Clock;
use crate::store::redis::StoreError;
use crate::store::redis::script::{Decided, Lacks, Limiter, Seen, Step};

impl Store {
    /// Decides with the limiters for which there is room. Each other limiter is replaced by its overflow
    /// limiter or by a refusal.
    pub(super) async fn decide_without_room(
        &self,
        limiters: &[Limiter<'_>],
        lacks: &[Option<Lacks>],
        call_args: &CallArgs<'_>,
        pending: PendingStep<'_>,
    ) -> Result<Decided, StoreError> {
        let is_alone = limiters.len() == 1 || !self.client.settings().url.is_cluster();
        let mut rest: Vec<Limiter<'_>> = Vec::with_capacity(limiters.len());
        let mut refused = Vec::new();
        for (one, lacks) in limiters.iter().zip(lacks) {
            let shared = one.shared().filter(|_| is_alone && *lacks == Some(Lacks::Room));
            let is_there = |shared: &Limiter<'_>| {
                limiters.iter().chain(&rest).any(|one| one.key == shared.key)
            };
            match (lacks, shared.filter(|shared| !is_there(shared))) {
                (None, _) => rest.push(one.clone()),
                (Some(_), Some(shared)) => rest.push(shared),
                (Some(_), None) => refused.push(one),
            }
        }
        if lacks.contains(&Some(Lacks::Memory))
            && let Some(first) = limiters.first()
        {
            self.client.note_undecided(&StoreError::OutOfMemory, first.key);
        }
        let denies = refused.iter().any(|one| one.asks(call_args.step) > 0 && one.is_enforced());
        let denies = denies && call_args.step != Step::Report;
        let step = match call_args.step {
            Step::Ask | Step::Decide if denies => Step::Peek,
            step => step,
        };
        let call_args = CallArgs { step, ..*call_args };
        let mut done = match rest.is_empty() {
            true => Decided::nothing(self.clock.now()),
            false => {
                Box::pin(self.run_until_decided(
                    &rest,
                    &call_args,
                    PendingStep { undoes: false, ..pending },
                ))
                .await?
            }
        };
        for (place, (one, lacks)) in limiters.iter().zip(lacks).enumerate() {
            if lacks.is_none() {
                continue;
            }
            if refused.iter().any(|refused| refused.key == one.key) {
                let (decision, seen) = refusal(one, call_args.step, &done);
                done.decisions.insert(place.min(done.decisions.len()), decision);
                done.seen.insert(place.min(done.seen.len()), seen);
            } else if let Some(seen) = done.seen.get_mut(place) {
                seen.overflow = true;
            }
        }
        done.allowed &= !denies;
        Ok(done)
    }
}

/// Returns the refusal for a key without room: come back a window later, when every limiter that was not asked
/// meanwhile is idle.
fn refusal(one: &Limiter<'_>, step: Step, done: &Decided) -> (Decision, Seen) {
    let (limit, window) = one.rule.visit(Figures).unwrap_or_default();
    let (outcome, verdict) = match one.asks(step) {
        0 => (Outcome::Allow { delay: Micros::ZERO }, Verdict::Allow),
        _ => (Outcome::Deny { retry_after: window }, Verdict::Deny),
    };
    let decision = Decision { outcome, limit, remaining: 0, reset_after: window };
    let reply =
        ScriptReply { now: done.now, at: done.at, verdict, taken: false, state: Vec::new() };
    (decision, Seen { reply, tried: false, newer: None, overflow: true, token: None })
}

/// Reads limit and window.
struct Figures;

impl Visitor for Figures {
    type Out = (u64, Micros);
    fn visit<R: Algorithm>(self, algorithm: &R) -> (u64, Micros) {
        (algorithm.limit(), algorithm.window())
    }
}
