//! What the gate answers: the decision of every rule that matched, and the one that is reported.

use std::cmp::Reverse;
use std::sync::Arc;

#[cfg(feature = "redis")]
use tidegate_core::Outcome;
use tidegate_core::{Decision, Micros, Rule, Timestamp};

use crate::inline_list::InlineList;
use crate::rules::{Mode, PolicyRule, Usage};
use crate::step::{Descriptors, Lineage};
use crate::store::memory::{Generation, Kept};
#[cfg(feature = "redis")]
use crate::store::redis::StoreError;

/// What one limiter replied, and about what.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) lineage: Lineage,
    /// The number of its rule in the policy.
    pub(crate) number: usize,
    pub(crate) variant: usize,
    /// The figures that decided, where they are not those of the rule.
    pub(crate) figures: Option<Arc<Rule>>,
    pub(crate) cost: u64,
    /// Units that were decided about.
    pub(crate) asks: u64,
    pub(crate) report: bool,
    pub(crate) by: Descriptors,
    pub(crate) decision: Decision,
    pub(crate) overflow: bool,
    /// It was not the key's own limiter that decided.
    pub(crate) elsewhere: bool,
}

/// The rules under which a request was decided.
#[derive(Clone, Debug)]
pub(crate) enum Rules<'g> {
    /// Those of a policy that may have been replaced since: the answer keeps it.
    Kept(Kept<Generation>),
    /// Those of whoever gave the answer.
    #[cfg_attr(not(feature = "tower"), expect(dead_code, reason = "a gate keeps its policies"))]
    Borrowed(&'g [PolicyRule]),
}

impl Rules<'_> {
    #[inline]
    fn get(&self, number: usize) -> Option<&PolicyRule> {
        match self {
            Self::Kept(generation) => generation.policy.rules().get(number),
            Self::Borrowed(rules) => rules.get(number),
        }
    }
}

/// One rule's part in an answer, borrowed from it.
#[derive(Clone, Copy, Debug)]
pub struct Matched<'a> {
    pub(crate) rule: &'a PolicyRule,
    pub(crate) reply: &'a Reply,
}

impl<'a> Matched<'a> {
    /// The rule, as it was in force when it decided.
    #[must_use]
    pub const fn rule(&self) -> &'a PolicyRule {
        self.rule
    }

    /// Which of the rule's figures hold for the key, where it has no plan and the request brings none: 0
    /// its own, else 1 + the number of the override.
    #[must_use]
    pub const fn variant(&self) -> usize {
        self.reply.variant
    }

    /// The figures that decided: those that the request brought along ([`OwnLimit`](crate::OwnLimit)), the plan
    /// of the key ([`Gate::with_plans`](crate::Gate::with_plans)), or else the rule's own for the key
    /// ([`PolicyRule::variant`]), as they were last changed ([`Gate::amend`](crate::Gate::amend)).
    #[must_use]
    pub fn figures(&self) -> &'a Rule {
        let reply = self.reply;
        reply.figures.as_deref().unwrap_or_else(|| self.rule.variant(reply.variant))
    }

    /// Units the request asked of its limiter: the costs of all descriptors that meet it.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.reply.cost
    }

    /// Whether the request reported usage ([`Usage::Reported`](crate::Usage::Reported)): the cost was taken
    /// whatever the limiter held, and the decision says how it stands with that.
    #[must_use]
    pub const fn is_report(&self) -> bool {
        self.reply.report
    }

    /// Whether the request asked for one unit at no cost, as a look does where usage is reported: the decision
    /// may deny it.
    #[must_use]
    pub const fn is_look(&self) -> bool {
        self.reply.asks > self.reply.cost
    }

    /// Whether what the work did cost is to be settled with the limiter: it took the cost, or takes only what
    /// is reported.
    pub(crate) fn can_settle(&self) -> bool {
        self.reply.decision.is_allowed()
            || self.reply.report
            || self.rule.spec().usage == Usage::Reported
    }

    /// Whether the descriptor with this number, from 0 in the order of the request, is among those that
    /// meet its limiter. Those from number 63 on are not told apart: if one of them does, all do.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Micros, Policy, Request, RuleSpec, Spec};
    ///
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 10, Micros::from_secs(1));
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])])?);
    /// let (ada, bob) = ([("user", "ada")], [("user", "bob")]);
    /// let descriptors = [Descriptor::new(&ada), Descriptor::new(&bob)];
    /// let answer = gate.check(&Request::new("default", &descriptors));
    /// let of_bob = &answer.matched()[1];
    /// assert!(of_bob.is_met_by(1) && !of_bob.is_met_by(0));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub const fn is_met_by(&self, descriptor: usize) -> bool {
        self.reply.by.has(descriptor)
    }

    /// What its limiter decided, with the figures.
    #[must_use]
    pub const fn decision(&self) -> &'a Decision {
        &self.reply.decision
    }

    /// True when the rule had no room for the key: its limiter is shared with others that came too
    /// late, or it was refused; or when a log had no memory to grow, and goes on with coarser times.
    #[must_use]
    pub const fn is_overflow(&self) -> bool {
        self.reply.overflow
    }

    /// Whether it was not the key's own limiter that decided.
    pub(crate) const fn is_elsewhere(&self) -> bool {
        self.reply.elsewhere
    }

    /// False for a rule in shadow mode, whose decision refuses nothing.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.rule.mode() == Mode::Enforce
    }
}

/// What an answer was decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a shared store can be away"))]
pub(crate) enum Standing {
    /// The limiters themselves.
    Exact,
    /// The rules themselves, without the store.
    Degraded(Lack),
    /// The same, and a rule refuses for no other reason.
    Unavailable(Lack),
}

/// Why the store did not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a shared store can be away"))]
pub(crate) enum Lack {
    /// It does not answer.
    Unavailable,
    /// It answers, but cannot decide this in time.
    Overloaded,
}

#[cfg(feature = "redis")]
impl Lack {
    pub(crate) const fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Overloaded { .. } => Self::Overloaded,
            _ => Self::Unavailable,
        }
    }
}

/// The answer to one request. A refusal is an answer, not an error.
///
/// It keeps the policy that decided, which may be replaced meanwhile ([`Gate::replace`](crate::Gate::replace)), and
/// what is read of it is borrowed from it: whoever collects many answers for long keeps old policies in memory.
#[derive(Clone, Debug)]
#[must_use]
pub struct Answer<'g> {
    pub(crate) rules: Rules<'g>,
    pub(crate) allowed: bool,
    pub(crate) at: Timestamp,
    pub(crate) standing: Standing,
    pub(crate) repeated: bool,
    pub(crate) replies: InlineList<Reply>,
}

impl Answer<'_> {
    /// Whether the request goes on.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// When it was given.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// True when it is the answer that the same request got before, under the same id: nothing was taken
    /// this time, and the figures are those of then. See [`Request::with_id`](crate::Request::with_id).
    #[must_use]
    pub const fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// True when no rule with a limit was enforced: the figures are absent.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.enforced().next().is_none()
    }

    /// True when the request is refused and the same cost can not ever fit.
    #[must_use]
    pub fn is_never(&self) -> bool {
        !self.allowed && self.retry_after().is_none()
    }

    /// True when a rule that can refuse had no room for the key.
    #[must_use]
    pub fn is_overflow(&self) -> bool {
        self.enforced().any(|matched| matched.is_overflow())
    }

    /// True when the shared store did not decide: it was unavailable, and the rules' own `on_store_error`
    /// decided, or it was [overloaded](Answer::is_overloaded). A rule that is open while the store is
    /// unavailable is not among those that matched, for nothing is known of its limiter.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.standing != Standing::Exact
    }

    /// True when the shared store answers, but there was more load than it decides in time, or when many
    /// waited for it and it was silent for less than three deadlines: rules whose `on_store_error` is `local` or `open` were decided in process, as `local` is, and one that is
    /// `closed` refused the request ([`Answer::is_unavailable`]). Such an answer is also
    /// [degraded](Answer::is_degraded).
    #[must_use]
    pub const fn is_overloaded(&self) -> bool {
        matches!(
            self.standing,
            Standing::Degraded(Lack::Overloaded) | Standing::Unavailable(Lack::Overloaded)
        )
    }

    /// True when it is refused because the store did not decide, by a rule that is then closed: the caller
    /// did nothing wrong.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self.standing, Standing::Unavailable(_))
    }

    /// Every rule that matched and counts, shadow rules included, in file order; a rule that several
    /// descriptors met under different keys is there once for each key.
    #[must_use]
    pub fn matched(&self) -> Vec<Matched<'_>> {
        self.all().collect()
    }

    /// The rules that can refuse.
    pub fn enforced(&self) -> impl Iterator<Item = Matched<'_>> {
        self.all().filter(Matched::is_enforced)
    }

    /// The rules in shadow mode, which say what they would do.
    pub fn shadow(&self) -> impl Iterator<Item = Matched<'_>> {
        self.all().filter(|matched| !matched.is_enforced())
    }

    /// What [`Answer::matched`] returns, one by one.
    pub(crate) fn all(&self) -> impl Iterator<Item = Matched<'_>> {
        let replies = self.replies.iter();
        replies.filter_map(|reply| Some(Matched { rule: self.rules.get(reply.number)?, reply }))
    }

    /// Returns the least of one figure over the rules that can refuse; the largest number where there is none.
    pub(crate) fn least(&self, figure: impl Fn(&Decision) -> u64) -> u64 {
        self.enforced().map(|one| figure(one.decision())).min().unwrap_or(u64::MAX)
    }

    /// The rule whose figures are told: when denied, the denying one with the longest `retry_after`
    /// (never is longest), else the one with least `remaining`; the earlier on a tie.
    #[must_use]
    pub fn reported(&self) -> Option<Matched<'_>> {
        if self.allowed {
            self.enforced().min_by_key(|matched| matched.decision().remaining)
        } else {
            let denying = self.enforced().filter(|matched| !matched.decision().is_allowed());
            denying.min_by_key(|matched| Reverse(wait(matched.decision())))
        }
    }

    /// Unit-cost requests that would be admitted now by the rule that is [reported](Answer::reported); `None`
    /// where no rule limits the request.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.reported().map(|matched| matched.decision().remaining)
    }

    /// Least wait after which the same cost would fit: zero when allowed, `None` when it never does.
    #[must_use]
    pub fn retry_after(&self) -> Option<Micros> {
        self.reported().map_or(Some(Micros::ZERO), |matched| matched.decision().retry_after())
    }

    /// How long an admitted request must be held: the longest of all rules.
    #[must_use]
    pub fn delay(&self) -> Micros {
        let longest = self.enforced().map(|matched| matched.decision().delay()).max();
        longest.filter(|_| self.allowed).unwrap_or_default()
    }

    /// The work was held for the delay: none is told any more.
    #[cfg(feature = "redis")]
    pub(crate) fn release(&mut self) {
        for reply in &mut self.replies {
            if let Outcome::Allow { delay } = &mut reply.decision.outcome {
                *delay = Micros::ZERO;
            }
        }
    }

    /// Least wait until all limiters are idle: the longest of all rules.
    #[must_use]
    pub fn reset_after(&self) -> Micros {
        self.enforced().map(|matched| matched.decision().reset_after).max().unwrap_or_default()
    }
}

/// A wait to compare: never is the longest.
fn wait(decision: &Decision) -> Micros {
    decision.retry_after().unwrap_or(Micros::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_told_apart_up_to_the_last_which_stands_for_the_rest() {
        let mut some = Descriptors::one(0);
        some.add(62);
        assert!(some.has(0) && some.has(62));
        assert!(!some.has(1) && !some.has(63) && !some.has(1000));
        some.add(usize::MAX);
        assert!(some.has(63) && some.has(64) && !some.has(61));
    }
}
