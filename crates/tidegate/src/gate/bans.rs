//! Bans at a gate: a key that a rule has refused too often is denied before any limiter is asked.

use tidegate_core::{Micros, Outcome, Timestamp};

use super::Gate;
use crate::clock::Clock;
use crate::limiter::Ban;
use crate::rules::NoSuchRule;
use crate::step::{Decided, Done, Met, Step};

/// The bans of a gate, each with the number of its rule.
#[derive(Debug)]
pub(crate) struct Bans<C>(Vec<(usize, Ban<C>)>);

impl<C> Bans<C> {
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ban that may refuse at this limiter.
    fn of(&self, met: &Met) -> Option<&Ban<C>> {
        let ban = self.0.iter().find(|(rule, _)| met.can_refuse() && *rule == met.rule);
        ban.map(|(_, ban)| ban)
    }
}

impl<C: Clock> Gate<C> {
    /// Bans each key that the named rule refuses too often: see [`Ban`], which should go by a copy of
    /// this gate's clock.
    ///
    /// Every denial by the rule counts as a refusal of its key, once for each request, those of requests
    /// that had waited included, and those of a cost that never fits; but not where the rule has no room
    /// for the key, which is then refused for what others took. A request that meets a banned key
    /// is denied before any limiter is asked: nothing is charged, nobody waits, and `retry_after` is
    /// what is left of the ban, or the limiter's own wait where that is longer. A request that waits
    /// already when the ban begins goes on waiting. A cost of 0 is always allowed, and a rule in shadow
    /// mode never bans. [`Gate::reset`] lifts the bans of the limiters it resets.
    ///
    /// A rule has one ban: another takes the place of the first.
    ///
    /// ```
    /// use tidegate::{
    ///     Algorithm, Ban, Descriptor, Gate, ManualClock, Micros, Policy, Request, RuleSpec, Spec,
    /// };
    ///
    /// let clock = ManualClock::new();
    /// let spec = Spec::new(Algorithm::FixedWindow, 1, Micros::from_secs(1));
    /// let policy = Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])])?;
    /// let hour = Micros::from_secs(3_600);
    /// let ban = Ban::with_clock(2, Micros::from_secs(60), hour, clock.clone())?;
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
    /// The policy has no such rule.
    pub fn with_ban(mut self, domain: &str, rule: &str, ban: Ban<C>) -> Result<Self, NoSuchRule> {
        let (number, _) = self.policy.named(domain, rule)?;
        self.bans.0.retain(|(other, _)| *other != number);
        self.bans.0.push((number, ban));
        Ok(self)
    }

    /// The denial of a request that meets a banned key, nothing being taken.
    #[inline]
    pub(crate) fn banned(&self, met: &[Met], clock: &impl Clock) -> Option<Done> {
        if self.bans.is_empty() { None } else { self.banned_at(met, clock.now()) }
    }

    fn banned_at(&self, met: &[Met], now: Timestamp) -> Option<Done> {
        let left = |met: &Met| self.bans.of(met)?.left(met.print, now);
        let left: Vec<_> = met.iter().map(left).collect();
        if left.iter().all(Option::is_none) {
            return None;
        }
        let mut done = self.memory.step(met, &now, Step::Peek);
        // One whose rule was changed to be unlimited refuses nobody.
        let banned = done.decisions.iter_mut().zip(left).filter(|(decided, _)| !decided.unlimited);
        let mut is_denied = false;
        for (decided, left) in banned {
            is_denied |= left.is_some();
            deny(decided, left);
        }
        done.allowed = false;
        is_denied.then_some(done)
    }

    /// Counts the refusals of rules that ban.
    #[inline]
    pub(super) fn count_refusals(&self, met: &[Met], done: &Done) {
        if self.bans.is_empty() || done.allowed {
            return;
        }
        for (met, decided) in met.iter().zip(&done.decisions) {
            // One without a limiter of its own was refused for what others took.
            let is_own = !decided.decision.is_allowed() && !decided.elsewhere;
            if let Some(ban) = self.bans.of(met).filter(|_| is_own) {
                ban.count(met.print, done.at);
            }
        }
    }

    /// Lifts the bans of these limiters' keys.
    pub(super) fn lift_bans(&self, met: &[Met]) {
        for met in met {
            let ban = self.bans.0.iter().find(|(rule, _)| *rule == met.rule);
            ban.iter().for_each(|(_, ban)| ban.forget(met.print));
        }
    }
}

/// What a limiter tells of a key that is banned so long still; what can never fit is told so.
fn deny(decided: &mut Decided, left: Option<Micros>) {
    let decision = &mut decided.decision;
    if let (Some(left), Some(own)) = (left, decision.retry_after()) {
        decision.outcome = Outcome::Deny { retry_after: left.max(own) };
        decision.remaining = 0;
    }
}
