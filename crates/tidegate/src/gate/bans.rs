//! Bans at a gate: a key that a rule has refused too often is denied before any limiter is asked.

use tidegate_core::{Micros, Timestamp};

use super::Gate;
use crate::clock::Clock;
use crate::frontend::deny;
use crate::limiter::Ban;
use crate::rules::NoSuchRule;
use crate::step::{Ask, Done, Step};
use crate::store::memory::{Generation, Moved};

impl<C: Clock> Gate<C> {
    /// Bans each key that the named rule refuses too often: see [`Ban`], which should use a copy of this gate's
    /// clock.
    ///
    /// Every denial by the rule counts as a refusal of its key, once for each request. That includes requests that
    /// waited and costs that never fit, but not keys for which the rule has no room: those are refused because of
    /// other keys. A request with a banned key is denied before any limiter is asked: nothing is charged, the request
    /// does not wait, and `retry_after` is the rest of the ban, or the limiter's own wait if that is longer. A
    /// request that waits already when the ban starts goes on waiting. A cost of 0 is always allowed, and a rule in
    /// shadow mode never bans. [`Gate::reset`] lifts the bans of the limiters that it resets.
    ///
    /// A rule has one ban; a second call replaces it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{
    ///     AlgorithmKind, Ban, Descriptor, Gate, ManualClock, Policy, Request, RuleSpec, Spec,
    /// };
    ///
    /// let clock = ManualClock::new();
    /// let spec = Spec::new(AlgorithmKind::FixedWindow, 1, Duration::from_secs(1));
    /// let policy = Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])])?;
    /// let hour = Duration::from_secs(3_600);
    /// let ban = Ban::with_clock(2, Duration::from_secs(60), hour, clock.clone())?;
    /// let gate = Gate::with_clock(policy, clock).with_ban("default", "per-user", ban)?;
    ///
    /// let entries = [("user", "ada")];
    /// let descriptors = [Descriptor::new(&entries)];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.admits(&request));
    /// assert!(!gate.admits(&request));
    /// assert!(!gate.admits(&request)); // the second refusal
    /// assert_eq!(gate.check(&request).retry_after(), Some(hour));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the policy has no such rule.
    pub fn with_ban(mut self, domain: &str, rule: &str, ban: Ban<C>) -> Result<Self, NoSuchRule> {
        let lineage = self.memory.keep_lineage(domain, rule)?;
        self.front.bans.add(lineage, ban);
        Ok(self)
    }

    /// Returns the denial of a request with a banned key; nothing is taken.
    #[inline]
    pub(super) fn banned(
        &self,
        generation: &Generation,
        asks: &[Ask],
        clock: &impl Clock,
    ) -> Result<Option<Done>, Moved> {
        if self.front.bans.is_empty() {
            return Ok(None);
        }
        let now = clock.now();
        let left = self.front.bans.left(asks, |ask| ask.fingerprint, now);
        left.map(|left| self.banned_for(generation, asks, left, now)).transpose()
    }

    fn banned_for(
        &self,
        generation: &Generation,
        asks: &[Ask],
        left: Vec<Option<Micros>>,
        now: Timestamp,
    ) -> Result<Done, Moved> {
        let mut done = self.memory.step(generation, asks, &now, Step::Peek)?;
        for (decided, left) in done.decisions.iter_mut().zip(left) {
            left.into_iter().for_each(|left| deny(&mut decided.decision, left));
        }
        done.allowed = false;
        Ok(done)
    }

    /// Counts the refusals by rules that ban.
    #[inline]
    pub(super) fn count_refusals(&self, asks: &[Ask], done: &Done) {
        if self.front.bans.is_empty() || done.allowed {
            return;
        }
        for (ask, decided) in asks.iter().zip(&done.decisions) {
            // A key without a limiter of its own was refused because of other keys.
            if !decided.decision.is_allowed() && !decided.elsewhere {
                self.front.bans.count(ask, |ask| ask.fingerprint, done.at);
            }
        }
    }
}
