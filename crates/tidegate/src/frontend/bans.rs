//! Bans of a gate: a key that a rule refused too often is denied before any limiter is asked.

use tidegate_core::{Decision, Micros, Outcome, Timestamp};

use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::limiter::Ban;
use crate::step::{Ask, Lineage};

/// The bans of a gate, each with the lineage of its rule.
#[derive(Debug)]
pub(crate) struct Bans<C>(Vec<(Lineage, Ban<C>)>);

impl<C> Bans<C> {
    pub(super) const fn none() -> Self {
        Self(Vec::new())
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the ban of a rule and drops the rule's previous one.
    pub(crate) fn add(&mut self, rule: Lineage, ban: Ban<C>) {
        self.0.retain(|(other, _)| !other.is_of_rule(rule));
        self.0.push((rule, ban));
    }

    /// All of them, each with the lineage of its rule.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Lineage, &Ban<C>)> {
        self.0.iter().map(|(rule, ban)| (*rule, ban))
    }

    /// Gives the rules other lineages.
    pub(crate) fn relabel(&mut self, other: impl Fn(Lineage) -> Lineage) {
        self.0.iter_mut().for_each(|(rule, _)| *rule = other(*rule));
    }

    /// The ban of a rule.
    pub(crate) fn of_rule(&self, rule: Lineage) -> Option<&Ban<C>> {
        self.0.iter().find(|(other, _)| other.is_of_rule(rule)).map(|(_, ban)| ban)
    }

    /// The ban that may refuse at this limiter.
    fn of<K>(&self, ask: &Ask<K>) -> Option<&Ban<C>> {
        if ask.can_refuse() { self.of_rule(ask.lineage) } else { None }
    }
}

impl<C: Clock> Bans<C> {
    /// Returns how much longer each limiter's key is banned; `None` if no key is. `fingerprint` returns the
    /// fingerprint of a limiter in this process.
    pub(crate) fn left<K>(
        &self,
        asks: &[Ask<K>],
        fingerprint: impl Fn(&Ask<K>) -> Fingerprint,
        now: Timestamp,
    ) -> Option<Vec<Option<Micros>>> {
        let left: Vec<_> =
            asks.iter().map(|ask| self.of(ask)?.left(fingerprint(ask), now)).collect();
        left.iter().any(Option::is_some).then_some(left)
    }

    /// Counts the refusal of a limiter's key, if its rule bans.
    pub(crate) fn count<K>(
        &self,
        ask: &Ask<K>,
        fingerprint: impl Fn(&Ask<K>) -> Fingerprint,
        now: Timestamp,
    ) {
        if let Some(ban) = self.of(ask) {
            ban.count(fingerprint(ask), now);
        }
    }

    /// Lifts the bans of these limiters' keys.
    pub(crate) fn lift<K>(&self, asks: &[Ask<K>], fingerprint: impl Fn(&Ask<K>) -> Fingerprint) {
        for ask in asks {
            self.of_rule(ask.lineage).into_iter().for_each(|ban| ban.forget(fingerprint(ask)));
        }
    }
}

/// Denies a decision on a key that is banned for `left` more. A cost that can never fit keeps its own verdict.
pub(crate) fn deny(decision: &mut Decision, left: Micros) {
    if let Some(own) = decision.retry_after_micros() {
        decision.outcome = Outcome::Deny { retry_after: left.max(own) };
        decision.remaining = 0;
    }
}
