//! The gate's answer: the decision of every rule that matched, and the reported decision.
//!
//! Both gates make it from the replies of a step; observers, the protocols of the server and callers of the library
//! read it.

mod values;

use std::cmp::Reverse;

use tidegate_core::{Decision, Micros, Rule, Settled, Timestamp, Token};

use crate::inline_list::InlineList;
use crate::request::{Descriptor, Request};
#[cfg(feature = "headers")]
use crate::rules::ResetField;
use crate::rules::{Policy, PolicyRule, Usage, is_near};
use crate::step::{Decided, DescriptorSet, FirstReservation, Lack, Lineage, Standing};
use crate::store::memory::{Kept, MemoryGeneration};
pub use values::Unreached;

/// One limiter's reply, with the ask that it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// The number of its rule in the policy.
    pub(crate) number: u32,
    pub(crate) variant: u32,
    pub(crate) cost: u64,
    /// True if one unit was asked for at no cost.
    pub(crate) is_look: bool,
    pub(crate) report: bool,
    /// True if the rule can refuse the request; false in shadow mode.
    pub(crate) enforced: bool,
    pub(crate) by: DescriptorSet,
    /// True if the cost is reserved.
    pub(crate) reserves: bool,
    pub(crate) decided: Decided,
}

/// The rules that decided a request.
#[derive(Clone, Debug)]
pub(crate) enum Rules<'g> {
    /// The rules of a policy, which the answer keeps because it may have been replaced since.
    Kept(Kept<MemoryGeneration>),
    /// The rules of a policy over a shared store.
    #[cfg(feature = "redis")]
    Shared(std::sync::Arc<crate::store::Generation>),
    /// The rules of an answer that was built outside a gate.
    #[cfg_attr(not(feature = "tower"), expect(dead_code, reason = "a gate keeps its policies"))]
    Borrowed(&'g [PolicyRule]),
}

impl Rules<'_> {
    #[inline]
    fn get(&self, number: u32) -> Option<&PolicyRule> {
        match self {
            Self::Borrowed(rules) => rules.get(number as usize),
            _ => self.policy()?.rules().get(number as usize),
        }
    }

    fn lineage(&self, number: u32) -> Lineage {
        match self {
            Self::Kept(generation) => generation.lineage(number as usize),
            #[cfg(feature = "redis")]
            Self::Shared(generation) => generation.lineage(number as usize),
            Self::Borrowed(_) => Lineage::NONE,
        }
    }

    #[cfg(feature = "headers")]
    pub(crate) fn reset_field(&self) -> ResetField {
        self.policy().map_or_else(ResetField::default, Policy::reset_field)
    }

    /// The policy; `None` if the answer was built outside a gate.
    #[inline]
    pub(crate) fn policy(&self) -> Option<&Policy> {
        match self {
            Self::Kept(generation) => Some(&generation.policy),
            #[cfg(feature = "redis")]
            Self::Shared(generation) => Some(&generation.policy),
            Self::Borrowed(_) => None,
        }
    }
}

/// One rule's part in an answer, borrowed from it.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec};
///
/// let rules = vec![RuleSpec::new("per-user", "5/m").key(["user"]), RuleSpec::new("all", "100/m")];
/// let gate = Gate::new(Policy::new(rules)?);
/// let answer = gate.check(&[("user", "ada")]);
/// let left: Vec<_> = answer
///     .enforced()
///     .map(|matched| (matched.rule().name(), matched.decision().remaining))
///     .collect();
/// assert_eq!(left, [("per-user", 4), ("all", 99)]);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Matched<'a> {
    pub(crate) rule: &'a PolicyRule,
    pub(crate) reply: &'a Reply,
}

impl<'a> Matched<'a> {
    /// The rule, as it was in force for this decision.
    #[must_use]
    pub const fn rule(&self) -> &'a PolicyRule {
        self.rule
    }

    /// The number of the values that apply to the key, without a plan or values that the request supplies: 0 for the
    /// rule's own, else 1 + the number of the override.
    #[must_use]
    pub const fn variant(&self) -> usize {
        self.reply.variant as usize
    }

    /// The values that decided: the values that the request supplied ([`RequestLimit`](crate::RequestLimit)), else the
    /// plan of the key ([`Setup::plans`](crate::Setup::plans)), else the rule's own for the key
    /// ([`PolicyRule::variant`]), as last changed ([`Gate::amend`](crate::Gate::amend)).
    #[must_use]
    pub fn values(&self) -> &'a Rule {
        let reply = self.reply;
        reply.decided.values.as_ref().unwrap_or_else(|| self.rule.variant(self.variant()))
    }

    /// Units that the request asked of the limiter: the costs of all its descriptors with this limiter.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.reply.cost
    }

    /// Returns whether the request reported usage ([`Usage::Reported`](crate::Usage::Reported)): the cost was taken
    /// regardless of the limit, and the decision holds the limiter's values after that.
    #[must_use]
    pub const fn is_report(&self) -> bool {
        self.reply.report
    }

    /// Returns whether the request asked for one unit at no cost, as a peek does for reported usage: the decision may
    /// deny it.
    #[must_use]
    pub const fn is_look(&self) -> bool {
        self.reply.is_look
    }

    /// Returns whether the actual cost of the work can be settled with the limiter. It can if the limiter took the
    /// cost, or if its rule counts only reported usage.
    pub(crate) fn can_settle(&self) -> bool {
        self.reply.decided.decision.is_allowed()
            || self.reply.report
            || self.rule.spec().usage == Usage::Reported
    }

    /// Returns whether the descriptor with this number, counted from 0 in the order of the request, has this limiter.
    /// The descriptors from number 63 on count as one: if any of them has it, all do.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec};
    ///
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 10, Duration::from_secs(1));
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])])?);
    /// let (ada, bob) = ([("user", "ada")], [("user", "bob")]);
    /// let descriptors = [Descriptor::new(&ada), Descriptor::new(&bob)];
    /// let answer = gate.check(&Request::new("default", &descriptors));
    /// let of_bob = &answer.matched()[1];
    /// assert!(of_bob.is_matched_by(1) && !of_bob.is_matched_by(0));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub const fn is_matched_by(&self, descriptor: usize) -> bool {
        self.reply.by.has(descriptor)
    }

    /// The first descriptor of `request` that [has](Self::is_matched_by) this limiter; `None` if the answer is to another
    /// request.
    #[must_use]
    pub fn descriptor<'r>(&self, request: &'r Request<'_>) -> Option<&'r Descriptor<'r>> {
        let mut descriptors = request.descriptors().iter().enumerate();
        let found = descriptors.find(|(number, _)| self.is_matched_by(*number));
        found.map(|(_, descriptor)| descriptor)
    }

    /// The decision of the limiter, with its values.
    pub const fn decision(&self) -> &'a Decision {
        &self.reply.decided.decision
    }

    /// The token of the permit that was taken, if the rule's algorithm is `concurrency`: tokens of a limiter increase,
    /// so the protected resource can refuse an older token.
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        self.reply.decided.taken.token
    }

    /// The result of a settlement: units that came back too late, or were cut off because they would pass `max_debt`.
    #[must_use]
    pub const fn settled(&self) -> Settled {
        self.reply.decided.settled
    }

    /// True if the rule had no room for the key, which was refused or decided by the overflow limiter; or if a log
    /// had no memory to grow, and goes on with coarser times.
    #[must_use]
    pub const fn is_overflow(&self) -> bool {
        self.reply.decided.overflow
    }

    /// Returns whether another limiter than the key's own decided.
    pub(crate) const fn is_elsewhere(&self) -> bool {
        self.reply.decided.elsewhere
    }

    /// Returns whether the limiter admitted the request and is near its end, as
    /// [`RuleSpec::near`](crate::RuleSpec::near) says; false if it says nothing.
    #[must_use]
    #[inline]
    pub fn is_near(&self) -> bool {
        self.rule.spec().near.is_some_and(|near| is_near(self.decision(), near))
    }

    /// False for a rule in shadow mode, whose decision refuses nothing.
    #[must_use]
    pub const fn is_enforced(&self) -> bool {
        self.reply.enforced
    }
}

/// The answer to one request. A refusal is an answer, not an error.
///
/// It keeps the policy that decided, even if that policy is replaced ([`Gate::replace`](crate::Gate::replace)), and
/// lends parts of it. A caller that collects many answers keeps old policies in memory.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "2/h").key(["user"])])?);
/// let request = ("default", &[("user", "ada")]);
/// assert_eq!(gate.check(request).remaining(), Some(1));
/// assert!(gate.check(request).is_allowed());
///
/// let refused = gate.check(request);
/// assert!(refused.retry_after().is_some_and(|wait| wait.as_secs() <= 1_800));
/// let rule = refused.reported().map(|matched| matched.rule().name().to_owned());
/// assert_eq!(rule.as_deref(), Some("per-user"));
/// assert_eq!(refused.ok().unwrap_err().rule(), Some("per-user"));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct Answer<'g> {
    pub(crate) rules: Rules<'g>,
    pub(crate) allowed: bool,
    pub(crate) at: Timestamp,
    pub(crate) standing: Standing,
    pub(crate) repeated: bool,
    pub(crate) first: Option<Box<FirstReservation>>,
    pub(crate) replies: InlineList<Reply>,
    /// Limiters that a settlement did not find.
    pub(crate) unreached: Option<Box<[Unreached]>>,
}

impl Answer<'_> {
    /// Returns whether the request is allowed.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// The time of the decision.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// True if this is the remembered answer to the same request, under the same id: nothing was taken this time, and
    /// the values are the values of the first time. See [`Request::with_id`](crate::Request::with_id).
    #[must_use]
    pub const fn is_repeated(&self) -> bool {
        self.repeated
    }

    /// The reservation of the first request, if this is its remembered answer, it
    /// [reserved under a name](crate::Request::reserving_as), and a shared store remembered it.
    #[must_use]
    pub fn first_reservation(&self) -> Option<&FirstReservation> {
        self.first.as_deref()
    }

    /// True if no rule with a limit was enforced: the answer has no values, except from shadow rules.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        !self.replies.iter().any(|reply| reply.enforced)
    }

    /// True if the request is refused and the same cost can never fit.
    #[must_use]
    pub fn is_never(&self) -> bool {
        !self.allowed && self.retry_after_micros().is_none()
    }

    /// True if a rule that can refuse had no room for the key.
    #[must_use]
    pub fn is_overflow(&self) -> bool {
        self.replies.iter().any(|reply| reply.enforced && reply.decided.overflow)
    }

    /// True if the request is allowed and a rule that can refuse is [near its end](Matched::is_near).
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.allowed && self.enforced().any(|matched| matched.is_near())
    }

    /// True if the shared store did not decide: it was unavailable, and the rules' `on_store_error` decided, or it
    /// was [overloaded](Answer::is_overloaded). A rule that is open while the store is unavailable is not among those
    /// that matched, because nothing is known of its limiter.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.standing != Standing::Exact
    }

    /// True if the shared store answers, but had more load than it decides in time, or if many requests waited for it
    /// and it was silent for less than three deadlines. Rules whose `on_store_error` is `local` or `open` were then
    /// decided in process, as `local` is, and a `closed` one refused the request ([`Answer::is_unavailable`]). Such
    /// an answer is also [degraded](Answer::is_degraded).
    #[must_use]
    pub const fn is_overloaded(&self) -> bool {
        matches!(
            self.standing,
            Standing::Degraded(Lack::Overloaded) | Standing::Unavailable(Lack::Overloaded)
        )
    }

    /// True if the request is refused because the store did not decide, by a rule that is closed in that case: the
    /// caller did nothing wrong.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self.standing, Standing::Unavailable(_))
    }

    /// Every rule that matched and counts, shadow rules included, in file order. A rule that several descriptors
    /// match with different keys is there once for each key.
    ///
    /// The list is made by this call, so that it can be indexed and matched as a slice; [`Answer::enforced`] and
    /// [`Answer::shadow`] iterate without one.
    #[must_use]
    pub fn matched(&self) -> Vec<Matched<'_>> {
        self.all().collect()
    }

    /// The rules that can refuse.
    pub fn enforced(&self) -> impl Iterator<Item = Matched<'_>> {
        self.part(true)
    }

    /// The rules in shadow mode, with the decisions that they would make.
    pub fn shadow(&self) -> impl Iterator<Item = Matched<'_>> {
        self.part(false)
    }

    fn part(&self, enforced: bool) -> impl Iterator<Item = Matched<'_>> {
        self.all().filter(move |matched| matched.is_enforced() == enforced)
    }

    /// Identifies a limiter of this answer in later policies too.
    pub(crate) fn known_by(&self, matched: &Matched<'_>) -> (Lineage, DescriptorSet) {
        (self.rules.lineage(matched.reply.number), matched.reply.by)
    }

    /// Iterates over the result of [`Answer::matched`].
    pub(crate) fn all(&self) -> impl Iterator<Item = Matched<'_>> {
        let replies = self.replies.iter();
        replies.filter_map(|reply| Some(Matched { rule: self.rules.get(reply.number)?, reply }))
    }

    /// The rule whose values are reported: of a denial, the denying rule with the longest `retry_after` (never is the
    /// longest), else the rule with the smallest `remaining`; on a tie, the first.
    #[must_use]
    pub fn reported(&self) -> Option<Matched<'_>> {
        if self.allowed {
            self.enforced().min_by_key(|matched| matched.decision().remaining)
        } else {
            let denying = self.enforced().filter(|matched| !matched.decision().is_allowed());
            // The smallest of the reversed waits: `max_by_key` would return the last of equal waits.
            denying.min_by_key(|matched| Reverse(wait(matched.decision())))
        }
    }
}

/// A wait to compare; never is the longest.
fn wait(decision: &Decision) -> Micros {
    decision.retry_after_micros().unwrap_or(Micros::MAX)
}
