//! Bans over a store: a key that a rule refused too often is denied before the store is asked.

use tidegate_core::{Decision, Micros, Outcome, Timestamp};

use super::{InForce, SharedGate};
use crate::answer::Answer;
use crate::dedupe;
use crate::frontend::{again, known_by};
use crate::request::{Origin, Request};
use crate::rules::limit_of;
use crate::step::{Decided, Done, Standing};
use crate::store::{KeyAsk, StepArgs, Store, Verb};

impl<S: Store> SharedGate<S> {
    /// Returns whether any rule bans keys.
    pub(super) fn has_bans(&self) -> bool {
        !self.front.bans.is_empty()
    }

    /// Returns the denial of a request with a banned key, or its remembered answer.
    pub(super) async fn banned(
        &self,
        in_force: &InForce<S>,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Option<Answer<'_>> {
        if !self.has_bans() {
            return None;
        }
        let now = self.now();
        let left = self.front.bans.left(asks, |ask| self.local.fingerprint(ask), now)?;
        if origin.id.is_some()
            && dedupe::time(&in_force.generation.policy, asks).is_some()
            && let Some(seen) = Box::pin(self.remembered(in_force, asks, origin)).await
        {
            return Some(seen);
        }
        let denied =
            |(ask, left): (&KeyAsk, Option<Micros>)| self.denied(in_force, ask, left?, now);
        let decisions = asks.iter().zip(left).map(denied).collect();
        let done = Done { allowed: false, at: now, repeated: false, decisions };
        Some(in_force.answer_with::<Option<Decided>>(asks, done, Standing::Exact))
    }

    /// Returns the remembered answer to a request, from the store or, without the store, from this process.
    async fn remembered(
        &self,
        in_force: &InForce<S>,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Option<Answer<'_>> {
        let args = StepArgs::new(Verb::Peek, origin, in_force.tower.host().deadline());
        let seen = in_force.tower.step(asks, args).await.ok()?;
        // Any other answer is not used, so it does not count as decided without the store.
        seen.repeated.then(|| self.counted(in_force.answer(asks, seen)))
    }

    /// Returns the reply of a limiter whose key is banned for `left` more.
    fn denied(
        &self,
        in_force: &InForce<S>,
        ask: &KeyAsk,
        left: Micros,
        now: Timestamp,
    ) -> Option<Decided> {
        let limit = limit_of(ask.rule_in(&in_force.generation.policy)?)?;
        let known = self.local.denied(&in_force.generation, ask, now).map(|known| known.wait);
        let retry_after = known.map_or(left, |known| known.max(left));
        let fits = ask.asks <= limit;
        let outcome = if fits { Outcome::Deny { retry_after } } else { Outcome::Never };
        let decision = Decision { outcome, limit, remaining: 0, reset_after: retry_after };
        Some(Decided::of(decision, false, false))
    }

    /// Counts the refusals of rules that ban.
    pub(super) fn count_refusals(&self, request: &Request<'_>, answer: &Answer<'_>) {
        if self.front.bans.is_empty() || answer.is_allowed() || answer.is_degraded() {
            return;
        }
        let all = self.asks(&self.newest(), request);
        for (ask, matched) in again(all, |ask| ask, answer.all(), known_by) {
            // The overflow limiter refuses because of the units that other keys took.
            if !matched.decision().is_allowed() && !matched.is_elsewhere() {
                self.front.bans.count(&ask, |ask| self.local.fingerprint(ask), self.now());
            }
        }
    }

    /// Lifts the bans of these limiters' keys in this process.
    pub(super) fn lift_bans(&self, asks: &[KeyAsk]) {
        self.front.bans.lift(asks, |ask| self.local.fingerprint(ask));
    }
}
