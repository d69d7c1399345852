//! The part of a gate around its store: a request becomes limiters before it, and replies become an answer
//! after it. Bans deny a key that a rule refused too often, and plans are values that are looked up for each key.

mod charge;
mod queues;
mod resolve;
mod settle;
mod setup;

use std::fmt;

use tidegate_core::{Decision, Micros, Outcome, Rule, Timestamp};

use crate::answer::{Answer, Reply, Rules};
use crate::clock::Clock;
use crate::inline_list::InlineList;
use crate::key::Fingerprint;
use crate::limiter::Ban;
use crate::observe::Observers;
use crate::request::Descriptor;
#[cfg(feature = "redis")]
use crate::rules::PolicyRule;
use crate::step::{Ask, Decided, Done, Lineage, Standing};
pub use charge::Charge;
pub(crate) use queues::{GateQueue, GateQueues, delay_of, may_wait, queue_of, stops_of};
pub(crate) use resolve::{Fingerprints, keep_limited};
#[cfg(feature = "redis")]
pub use settle::RecordedReservation;
pub(crate) use settle::Settling;
pub use settle::Taken;
#[cfg(feature = "redis")]
pub(crate) use settle::again;
pub use setup::Setup;

/// The parts that gates over every store have: plans, bans by the clock `C`, and observers.
#[derive(Debug)]
pub(crate) struct Frontend<C> {
    pub(crate) plans: Plans,
    pub(crate) bans: Bans<C>,
    pub(crate) observers: Observers,
}

/// Makes the answer from the replies of the limiters that matched under `rules`. A limiter without a decision (by
/// `decided`) is left out.
#[inline]
pub(crate) fn answer<'g, K, D>(
    rules: Rules<'g>,
    asks: &[Ask<K>],
    mut done: Done<D>,
    standing: Standing,
    decided: impl Fn(&mut D) -> Option<&mut Decided>,
) -> Answer<'g> {
    // The reply of a single limiter is put where it stays: a list of this size is moved by a call, which waits for the
    // bytes that were just written.
    if let ([ask], [one]) = (asks, &mut done.decisions[..])
        && let Some(decided) = decided(one)
        && let Some(reply) = reply(ask, ask.is_report(), decided)
    {
        return answer_with(rules, &done, standing, InlineList::from_buf([reply]));
    }
    let replies = replies(asks, &mut done.decisions, decided);
    answer_with(rules, &done, standing, replies)
}

#[inline]
fn answer_with<'g, D>(
    rules: Rules<'g>,
    done: &Done<D>,
    standing: Standing,
    replies: InlineList<Reply>,
) -> Answer<'g> {
    let Done { allowed, at, repeated, .. } = *done;
    Answer { rules, allowed, at, standing, repeated, first: None, replies, unreached: None }
}

#[inline(never)]
fn replies<K, D>(
    asks: &[Ask<K>],
    decisions: &mut [D],
    decided: impl Fn(&mut D) -> Option<&mut Decided>,
) -> InlineList<Reply> {
    let is_report = asks.iter().any(Ask::is_report);
    // A single limiter without a reply needs no allocation.
    let mut replies = Vec::with_capacity(if asks.len() > 1 { asks.len() } else { 0 });
    let all = asks.iter().zip(decisions);
    replies.extend(all.filter_map(|(ask, one)| reply(ask, is_report, decided(one)?)));
    InlineList::from_vec(replies)
}

#[inline]
fn reply<K>(ask: &Ask<K>, is_report: bool, decided: &mut Decided) -> Option<Reply> {
    // A rule without a limit takes no part in an answer.
    if decided.decision.is_unlimited() {
        return None;
    }
    let values = decided.values.take().or_else(|| ask.values.own.clone());
    Some(Reply {
        number: u32::try_from(ask.rule).ok()?,
        variant: u32::try_from(ask.values.variant).ok()?,
        cost: ask.cost,
        is_look: ask.asks() > ask.cost,
        report: is_report,
        enforced: ask.enforced,
        by: ask.by,
        reserves: ask.reserves,
        decided: Decided { values, ..*decided },
    })
}

/// Parts of some rules, each with the lineage of its rule.
pub(crate) struct OfRules<T>(Vec<(Lineage, T)>);

/// The bans of a gate.
pub(crate) type Bans<C> = OfRules<Ban<C>>;

/// The rules whose values are looked up.
pub(crate) type Plans = OfRules<Box<Lookup>>;

/// Returns the plan for a descriptor; `None` if it has none of its own.
pub(crate) type Lookup = dyn Fn(&Descriptor<'_>) -> Option<Rule> + Send + Sync;

impl<T> OfRules<T> {
    const fn none() -> Self {
        Self(Vec::new())
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the part of a rule, in place of its previous part.
    pub(crate) fn add(&mut self, rule: Lineage, part: T) {
        self.0.retain(|(other, _)| !other.is_of_rule(rule));
        self.0.push((rule, part));
    }

    /// All of them, each with the lineage of its rule.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Lineage, &T)> {
        self.0.iter().map(|(rule, part)| (*rule, part))
    }

    /// Gives the rules other lineages.
    pub(crate) fn relabel(&mut self, other: impl Fn(Lineage) -> Lineage) {
        self.0.iter_mut().for_each(|(rule, _)| *rule = other(*rule));
    }

    /// The part of a rule.
    pub(crate) fn of_rule(&self, rule: Lineage) -> Option<&T> {
        self.0.iter().find(|(other, _)| other.is_of_rule(rule)).map(|(_, part)| part)
    }
}

/// Shows only the rules, because lookups are closures.
impl<T> fmt::Debug for OfRules<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(rule, _)| rule)).finish()
    }
}

#[cfg(feature = "redis")]
impl Plans {
    /// Returns whether requests or plans may have values for keys of a rule.
    pub(crate) fn has_any(&self, lineage: Lineage, rule: &PolicyRule) -> bool {
        rule.spec().limit_from_request || self.of_rule(lineage).is_some()
    }
}

impl<C: Clock> Bans<C> {
    /// The ban that may refuse at this limiter.
    fn of<K>(&self, ask: &Ask<K>) -> Option<&Ban<C>> {
        if ask.can_refuse() { self.of_rule(ask.lineage) } else { None }
    }

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
