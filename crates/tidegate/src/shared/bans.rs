//! Bans over a store: a key that a rule refused too often is denied before the store is asked.

use tidegate_core::{Decision, Micros, Outcome, Timestamp};

use super::{InForce, SharedGate};
use crate::answer::Answer;
use crate::dedupe;
use crate::frontend::{again, known_by};
use crate::limiter::Ban;
use crate::request::{Origin, Request};
use crate::rules::{NoSuchRule, limit_of};
use crate::step::{Decided, Done, Standing};
use crate::store::{KeyAsk, StepArgs, Store, Verb};

impl<S: Store> SharedGate<S> {
    /// Bans each key that the named rule refuses too often, like [`Gate::with_ban`](crate::Gate::with_ban),
    /// before the store is asked.
    ///
    /// This process counts refusals and keeps bans: each node bans for the refusals that it returned itself,
    /// and [`SharedGate::reset`] lifts the bans of this node. Refusals without the store
    /// ([`Answer::is_degraded`]) are not counted, because the store might have admitted the request. A ban that has
    /// started holds while the store is unavailable.
    ///
    /// The answer to a banned request contains only the banned limiters, because only the store knows the
    /// others. `retry_after` is the rest of the ban, or the store's last `retry_after` for the limiter if that
    /// is longer. If a request has an id ([`Request::with_id`]) and its answer may be remembered, the store is
    /// looked at for that answer first: any node may have admitted the request, and only the store knows. So an
    /// id costs the store a look also while the key is banned.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate::{Ban, Policy, SharedGate, StoreSettings};
    ///
    /// # fn example(policy: Policy, settings: StoreSettings) -> Result<(), Box<dyn std::error::Error>> {
    /// // Ten refusals within a minute: out for an hour.
    /// let ban = Ban::new(10, Duration::from_secs(60), Duration::from_secs(3_600))?;
    /// let gate = SharedGate::new(policy, settings, |_| {})?.with_ban("default", "per-user", ban)?;
    /// # let _ = gate;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The policy has no such rule.
    pub fn with_ban(mut self, domain: &str, rule: &str, ban: Ban) -> Result<Self, NoSuchRule> {
        let lineage = self.local.memory.keep_lineage(domain, rule)?;
        self.front.bans.add(lineage, ban);
        Ok(self)
    }

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
